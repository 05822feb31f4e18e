import { expect, it } from 'vitest'
import { rawRequest, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

const ROUNDS = 100

it('processes pipelined requests in order, so that each sees the writes before it', async () => {
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

it('ignores what was sent after a request that closed the connection', async () => {
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

it('drops the pipelined requests of a client that disconnected', async () => {
  const { name } = await client().database()
  const connection = await client().open()
  const put = (id: number) => rawRequest([`PUT /${name}/${id} HTTP/1.1`, 'Host: x', 'Content-Length: 2'], '{}')
  connection.write(Buffer.concat(Array.from({ length: 200 }, (_, id) => put(id))))
  await connection.receives('HTTP/1.1 201')
  connection.end()
  expect((await client().request('GET', `/${name}/0`)).status).toBe(200)
  expect((await client().request('PUT', `/${name}/after`, { body: {} })).status).toBe(201)
})

it('answers the requests before it, and then refuses what is not a request', async () => {
  const { name } = await client().database()
  const connection = await client().open()
  const put = rawRequest([`PUT /${name}/a HTTP/1.1`, 'Host: x', 'Content-Length: 2'], '{}')
  connection.write(Buffer.concat([put, put, Buffer.from('no request\r\n\r\n')]))
  await connection.closed()
  expect(connection.statuses).toEqual(['201', '409', '400'])
})
