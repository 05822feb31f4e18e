import { expect, it } from 'vitest'
import { rawRequest, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

const ROUNDS = 100

it('does requests that are sent ahead in their order, so that each sees what those before it did', async () => {
  const { name } = await client().database()
  const requests = Array.from({ length: ROUNDS }, (_, i) => [
    rawRequest([`PUT /${name}/${i} HTTP/1.1`, 'Host: x', 'Content-Length: 2'], '{}'),
    rawRequest([`GET /${name}/${i} HTTP/1.1`, 'Host: x']),
    rawRequest([`PUT /${name}/${i} HTTP/1.1`, 'Host: x', 'Content-Length: 2'], '{}'),
    rawRequest([`HEAD /${name}/${i} HTTP/1.1`, 'Host: x']),
    rawRequest([`GET /${name}/_all_docs HTTP/1.1`, 'Host: x']),
  ]).flat()
  const connection = await client().open()
  connection.write(Buffer.concat([...requests, rawRequest(['GET / HTTP/1.1', 'Host: x', 'Connection: close'])]))
  const received = await connection.closed()
  const round = ['201', '200', '409', '200', '200']
  expect(connection.statuses).toEqual([...Array.from({ length: ROUNDS }, () => round).flat(), '200'])
  const counts = [...received.matchAll(/"total_rows":(\d+)/g)].map(([, count]) => Number(count))
  expect(counts).toEqual(Array.from({ length: ROUNDS }, (_, i) => i + 1))
})

it('does nothing of what was sent behind a request that ended the connection', async () => {
  const { name } = await client().database()
  const connection = await client().open()
  connection.write(
    Buffer.concat([
      rawRequest([`PUT /${name}/a HTTP/1.1`, 'Host: x', 'Content-Length: 2', 'Connection: close'], '{}'),
      rawRequest([`PUT /${name}/b HTTP/1.1`, 'Host: x', 'Content-Length: 2'], '{}'),
    ]),
  )
  await connection.closed()
  expect(connection.statuses).toEqual(['201'])
  expect((await client().request('GET', `/${name}/b`)).status).toBe(404)
})

it('forgets what a client sent ahead that has gone', async () => {
  const { name } = await client().database()
  const connection = await client().open()
  const put = (id: number) => rawRequest([`PUT /${name}/${id} HTTP/1.1`, 'Host: x', 'Content-Length: 2'], '{}')
  connection.write(Buffer.concat(Array.from({ length: 200 }, (_, id) => put(id))))
  await connection.receives('HTTP/1.1 201')
  connection.end()
  expect((await client().request('GET', `/${name}/0`)).status).toBe(200)
  expect((await client().request('PUT', `/${name}/after`, { body: {} })).status).toBe(201)
})

it('answers what came before it, and then refuses what is no request', async () => {
  const { name } = await client().database()
  const connection = await client().open()
  const put = rawRequest([`PUT /${name}/a HTTP/1.1`, 'Host: x', 'Content-Length: 2'], '{}')
  connection.write(Buffer.concat([put, put, Buffer.from('no request\r\n\r\n')]))
  await connection.closed()
  expect(connection.statuses).toEqual(['201', '409', '400'])
})
