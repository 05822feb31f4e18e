import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { CompiledGenerator } from '../../bench/compiled-generator.ts'
import { addressOf, requestText } from '../../bench/http-connection.ts'
import { TEMPLATE_NUMBER } from '../../bench/load.ts'
import { documentId } from '../../bench/sample-documents.ts'

const generator = CompiledGenerator.build()
const compiled = it.skipIf(!generator)

/** Ids in the order in which they were asked for. */
async function drive(answer: RequestListener, documents?: number) {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url?.split('/').at(-1) ?? '')
    answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = addressOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  const templates = ['a', 'b'].map((name) => requestText(address, 'GET', `/${name}/${documentId(TEMPLATE_NUMBER)}`))
  const requests = { templates, status: 200, next: 7, ...(documents === undefined ? {} : { documents }) }
  const measure = await generator?.drive([address], requests, { connections: 9, durationMs: 50 })
  return { asked, measure, next: requests.next }
}

const echo: RequestListener = ({ url }, response) => response.end(JSON.stringify({ id: url?.split('/').at(-1) }))

compiled('the compiled generator asks for one new document after the other, and counts the replies', async () => {
  const { asked, measure, next } = await drive(echo)
  expect(asked.toSorted()).toEqual(Array.from(asked, (_, i) => documentId(7 + i)))
  expect(measure?.requests).toBe(asked.length)
  expect(next).toBe(7 + asked.length)
})

compiled('it asks for any of the documents that there are', async () => {
  const { asked } = await drive(echo, 3)
  expect([...new Set(asked)].toSorted()).toEqual([0, 1, 2].map(documentId))
})

compiled('it reads replies in chunks and in pieces', async () => {
  const { asked, measure } = await drive(({ url }, response) => {
    response.write('{"id":')
    setImmediate(() => response.end(`"${url}"}`))
  })
  expect(measure?.requests).toBe(asked.length)
})

compiled('it fails where a reply has another status', async () => {
  const driving = drive((request, response) => {
    response.statusCode = 404
    echo(request, response)
  })
  await expect(driving).rejects.toThrow('Status 200 was expected, but this came: HTTP/1.1 404')
})

compiled('it fails where a reply is of another document', async () => {
  await expect(drive((_, response) => response.end('{"id":"document-000000000"}'))).rejects.toThrow('was expected')
})
