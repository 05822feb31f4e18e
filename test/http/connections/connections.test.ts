import { describe, expect, it } from 'vitest'
import { Client, RawConnection, rawRequest } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { HAS_SEVERAL_SERVERS, TEST_NODES } from '../../support/test-service.ts'

async function server(settings: Record<string, Record<string, string>> = {}): Promise<Client> {
  return new Client((await startService({ settings })).url)
}

describe('connections', () => {
  // Of each server, where there are several.
  it.skipIf(HAS_SEVERAL_SERVERS).each([
    ['max_connections', '2'],
    ['server_options', '[{backlog, 5}, {max, 2}]'],
  ])('are limited by httpd/%s', async (key, value) => {
    const { url } = await server({ httpd: { [key]: value } })
    const first = await RawConnection.open(url)
    const second = await RawConnection.open(url)
    const request = rawRequest(['GET /_up HTTP/1.1', 'Host: x'])
    for (const connection of [first, second]) {
      connection.write(request)
      await connection.receives('200 OK')
    }
    const third = await RawConnection.open(url)
    expect(await third.closed()).toMatch(
      /^HTTP\/1\.1 503 Service Unavailable\r\n[\s\S]*{"error":"service_unavailable","reason":"Too many connections are open."}\n$/,
    )
    first.end()
    await expect
      .poll(async () => {
        const fourth = await RawConnection.open(url)
        fourth.write(request)
        return fourth.receives('200 OK').then(
          () => true,
          () => false,
        )
      })
      .toBe(true)
    second.end()
  })

  it('of HTTP/1.0 end with the reply, unless the client asks for keep-alive', async () => {
    const client = await server()
    expect(await client.exchange('GET /_up HTTP/1.0\r\n\r\n')).toContain('200 OK')
    const connection = await client.open()
    const request = 'GET /_up HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n'
    connection.write(request)
    expect(await connection.receives('{"status"')).toMatch(/\r\nConnection: keep-alive\r\n/i)
    connection.write(request)
    await connection.receives(/200 OK[\s\S]*200 OK/)
    connection.end()
  })

  it.each([
    ['a read', ['GET /db HTTP/1.1', 'Host: x'], '', '200'],
    ['a write', ['PUT /db/doc HTTP/1.1', 'Host: x', 'Content-Length: 2'], '{}', '201'],
    ['a listing', ['GET /db/_all_docs?include_docs=true HTTP/1.1', 'Host: x'], '', '200'],
    ['a show', ['GET /db/_design/d/_show/s HTTP/1.1', 'Host: x'], '', '200'],
  ])('that half-close after the request get their reply: %s', async (_, head, body, status) => {
    const client = await server()
    await client.request('PUT', '/db')
    await client.request('PUT', '/db/_design/d', { body: { shows: { s: 'function () { return "shown" }' } } })
    // A function that is called for the first time takes longer than a half-closed connection is kept for it. Each connection
    // goes to another node.
    for (let node = 0; node < TEST_NODES; node++) {
      await client.exchange('GET /db/_design/d/_show/s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    }
    const connection = await RawConnection.open(client.url)
    connection.write(rawRequest(head, body))
    connection.endSending()
    expect(await connection.closed()).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  })

  it('that half-close after several requests get all replies, and then are closed', async () => {
    const client = await server()
    await client.request('PUT', '/db')
    const connection = await RawConnection.open(client.url)
    const put = (id: string) => rawRequest([`PUT /db/${id} HTTP/1.1`, 'Host: x', 'Content-Length: 2'], '{}')
    connection.write(Buffer.concat([put('a'), put('b'), rawRequest(['GET /db/a HTTP/1.1', 'Host: x'])]))
    connection.endSending()
    await connection.closed()
    expect(connection.statuses).toEqual(['201', '201', '200'])
  })

  it.each([
    ['head', 'GET /db/b HTTP/1.1\r\nHost:'],
    ['body', 'PUT /db/b HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{'],
  ])('that half-close within the %s of a later request are closed after the replies', async (_, part) => {
    const client = await server()
    await client.request('PUT', '/db')
    const connection = await RawConnection.open(client.url)
    const whole = rawRequest(['PUT /db/a HTTP/1.1', 'Host: x', 'Content-Length: 2'], '{}')
    connection.write(Buffer.concat([whole, Buffer.from(part)]))
    connection.endSending()
    await connection.closed()
    expect(connection.statuses).toEqual(['201'])
    expect((await client.request('GET', '/db/b')).status).toBe(404)
  })

  it('that half-close are closed when the reply would not end', async () => {
    const client = await server()
    await client.request('PUT', '/db')
    const connection = await RawConnection.open(client.url)
    connection.write(rawRequest(['GET /db/_changes?feed=continuous&timeout=600000 HTTP/1.1', 'Host: x']))
    await connection.receives('200 OK')
    connection.endSending()
    await connection.closed()
  })

  it('that send too many headers are refused and closed', async () => {
    const headers = Array.from({ length: 1001 }, (_, i) => `X-${i}: y`)
    const received = await (await server()).exchange(rawRequest(['GET / HTTP/1.1', 'Host: x', ...headers]))
    expect(received).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/)
    expect(received).toMatch(/\r\n\r\n$/)
  })
})
