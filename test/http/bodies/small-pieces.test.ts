import { describe, expect, it } from 'vitest'
import { MeasuredServer } from '../../support/measured-server.ts'

const MEGABYTE = 1024 * 1024
const SIZE = 400_000

/** So many bytes of a JSON text, each in a chunk of its own. */
function oneByteChunks(size: number): Buffer {
  return Buffer.from(`1\r\n{\r\n${'1\r\n \r\n'.repeat(size)}`)
}

/** What the server holds once it has taken in what was sent. */
async function settledBytes(server: MeasuredServer): Promise<number> {
  for (let before = 0; ; ) {
    const held = await server.heldBytes()
    if (Math.abs(held - before) < MEGABYTE / 4) return held
    before = held
  }
}

describe('a body in chunks of one byte', () => {
  it.each([
    ['PUT', '/db/document', 'application/json'],
    ['POST', '/db/_bulk_docs', 'application/json'],
    ['PUT', '/db/document/attachment', 'application/octet-stream'],
  ])('of %s %s holds little more than its bytes', async (method, path, type) => {
    const server = await MeasuredServer.start()
    await server.client.request('PUT', '/db')
    const before = await server.heldBytes()
    const connection = await server.client.open()
    const head = `${method} ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n`
    connection.write(`${head}Connection: close\r\n\r\n`)
    connection.write(oneByteChunks(SIZE))
    expect((await settledBytes(server)) - before).toBeLessThan(5 * MEGABYTE)
    connection.write('1\r\n}\r\n0\r\n\r\n')
    expect(await connection.closed()).toMatch(/^HTTP\/1.1 (201|400) /)
  })
})
