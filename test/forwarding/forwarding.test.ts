import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, expect, it, onTestFinished } from 'vitest'
import { ForwardedRequests } from '../../src/http/forwarding/forwarded-request.ts'
import { Forwarder } from '../../src/http/forwarding/forwarder.ts'
import { Connection, type RequestHandler } from '../../src/wire/connection.ts'
import { BodyAbortedError } from '../../src/wire/incoming-body.ts'
import { RawConnection, rawRequest } from '../support/client.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

/** A node that hands everything to another one, whose handler this is; both in this process. */
class Pair {
  readonly path: string
  readonly failures: unknown[] = []
  available: () => Promise<void> = async () => {}
  #other: ForwardedRequests | undefined
  readonly #server: Server
  readonly #forwarder: Forwarder
  readonly #connections: Connection[] = []
  openConnections = 0

  static async open(handler: RequestHandler): Promise<Pair> {
    const pair = new Pair(join(await temporaryFolder(), 'requests.sock'))
    await pair.start(handler)
    await new Promise<void>((resolve) => pair.#server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => pair.#close())
    return pair
  }

  private constructor(path: string) {
    this.path = path
    const forwarder = new Forwarder({ path, node: '1', available: () => this.available() })
    this.#forwarder = forwarder
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      this.openConnections++
      socket.once('close', () => this.openConnections--)
      const connection = new Connection(socket, (request, reply) => {
        forwarder.forward(request, reply).then(
          (failure) => failure && reply.send(503, '', failure.reason),
          (error: unknown) => this.failures.push(error),
        )
      })
      this.#connections.push(connection)
    })
  }

  async start(handler: RequestHandler): Promise<void> {
    this.#other = await ForwardedRequests.listen(this.path, handler)
  }

  /** The other node ends as if it were killed. */
  async kill(): Promise<void> {
    this.#forwarder.reset()
    await this.#other?.close(0)
  }

  /** The node that hands on closes its listener. */
  shutDown(): void {
    for (const connection of this.#connections) connection.closeWhenDone()
  }

  client(): Promise<RawConnection> {
    const address = this.#server.address()
    const port = typeof address === 'object' && address ? address.port : 0
    return RawConnection.open(new URL(`http://127.0.0.1:${port}/`))
  }

  async #close(): Promise<void> {
    this.#server.close()
    await this.kill()
  }
}

let lastPair: Pair | undefined
afterEach(() => {
  expect(lastPair?.failures ?? []).toEqual([])
  lastPair = undefined
})

async function forwardingTo(handler: RequestHandler): Promise<Pair> {
  lastPair = await Pair.open(handler)
  return lastPair
}

const echo: RequestHandler = async (request, reply) => {
  const pieces: Buffer[] = []
  for await (const piece of request.body.read()) pieces.push(Buffer.from(piece))
  reply.send(200, `X-Method: ${request.method}\r\n`, Buffer.concat(pieces))
}

it('passes on bodies with a length, in chunks, and after 100 Continue', async () => {
  const pair = await forwardingTo(echo)
  const client = await pair.client()
  client.write(rawRequest(['PUT /a HTTP/1.1', 'Host: x', 'Content-Length: 3'], 'abc'))
  await client.receives(/X-Method: PUT\r\n[\s\S]*\r\n\r\nabc$/)
  client.write(
    rawRequest(['POST /b HTTP/1.1', 'Host: x', 'Transfer-Encoding: chunked'], '2\r\nde\r\n1\r\nf\r\n0\r\n\r\n'),
  )
  await client.receives(/X-Method: POST\r\n[\s\S]*\r\n\r\ndef$/)
  client.write(rawRequest(['PUT /c HTTP/1.1', 'Host: x', 'Content-Length: 4', 'Expect: 100-continue']))
  await client.receives(/100 Continue\r\n\r\n$/)
  client.write('ghij')
  await client.receives(/\r\n\r\nghij$/)
  client.end()
})

it('answers pipelined requests in their order, HEAD without a body among them', async () => {
  const pair = await forwardingTo((request, reply) => reply.send(200, '', `body of ${request.url}`))
  const client = await pair.client()
  const request = (method: string, path: string) => rawRequest([`${method} ${path} HTTP/1.1`, 'Host: x'])
  client.write(Buffer.concat([request('GET', '/1'), request('HEAD', '/2'), request('GET', '/3')]))
  const received = await client.receives('body of /3')
  expect(received.indexOf('body of /1')).toBeGreaterThan(0)
  expect(received).not.toContain('body of /2')
  expect(received.match(/Content-Length: 10/g)).toHaveLength(3)
  client.end()
})

it('takes no more of an upload than the other node reads', async () => {
  const pair = await forwardingTo(() => {})
  const client = await pair.client()
  const sizeBytes = 64 * 1024 * 1024
  client.write(rawRequest(['PUT /a HTTP/1.1', 'Host: x', `Content-Length: ${sizeBytes}`], Buffer.alloc(sizeBytes)))
  const before = process.memoryUsage.rss()
  for (let turns = 0; turns < 1000; turns++) await turn()
  expect(client.isDrained).toBe(false)
  expect(process.memoryUsage.rss() - before).toBeLessThan(sizeBytes / 2)
  client.end()
})

it('takes no more of a reply than the client reads', async () => {
  let sentBytes = 0
  let isOver = false
  const pair = await forwardingTo(async (_, reply) => {
    reply.begin(200, '')
    reply.onClose(() => (isOver = true))
    for (const piece = Buffer.alloc(64 * 1024); !reply.isGone; sentBytes += piece.length) {
      if (!reply.write(piece)) await reply.drained()
    }
  })
  const client = await pair.client()
  client.pause()
  client.write(rawRequest(['GET /a HTTP/1.1', 'Host: x']))
  let last = -1
  await until(async () => {
    const isSame = last === sentBytes && sentBytes > 0
    last = sentBytes
    return isSame
  })
  expect(sentBytes).toBeLessThan(32 * 1024 * 1024)
  client.end()
  await until(() => isOver)
})

it('notifies the other node when the client disconnects within its upload', async () => {
  const begun = Promise.withResolvers<void>()
  const outcome = Promise.withResolvers<unknown>()
  const pair = await forwardingTo(async (request) => {
    begun.resolve()
    try {
      for await (const _ of request.body.read());
      outcome.resolve('complete')
    } catch (error) {
      outcome.resolve(error)
    }
  })
  const client = await pair.client()
  client.write(rawRequest(['PUT /a HTTP/1.1', 'Host: x', 'Content-Length: 1000'], 'only this'))
  await begun.promise
  client.end()
  expect(await outcome.promise).toBeInstanceOf(BodyAbortedError)
})

it('notifies the other node that a client has half-closed, so that an endless reply ends', async () => {
  let isOver = false
  const pair = await forwardingTo((_, reply) => {
    reply.onClose(() => (isOver = true))
    reply.begin(200, '')
    reply.flush()
  })
  const client = await pair.client()
  client.write(rawRequest(['GET /a HTTP/1.1', 'Host: x']))
  await client.receives('200 OK')
  client.endSending()
  await until(() => isOver)
  await client.closed()
})

it('answers a client that has ended its side', async () => {
  const release = Promise.withResolvers<void>()
  const pair = await forwardingTo(async (_, reply) => {
    await release.promise
    reply.send(200, '', 'the answer')
  })
  const client = await pair.client()
  client.write(Buffer.concat(['/a', '/b'].map((path) => rawRequest([`PUT ${path} HTTP/1.1`, 'Host: x']))))
  client.endSending()
  await turn()
  release.resolve()
  expect(await client.closed()).toMatch(/the answer[\s\S]*the answer$/)
})

it('does nothing for a client that is gone when the other node is back', async () => {
  let requests = 0
  const pair = await forwardingTo((_, reply) => {
    requests++
    reply.send(200, '', '')
  })
  const back = Promise.withResolvers<void>()
  const waiting = Promise.withResolvers<void>()
  pair.available = () => {
    waiting.resolve()
    return back.promise
  }
  const client = await pair.client()
  client.write(rawRequest(['PUT /a HTTP/1.1', 'Host: x']))
  await waiting.promise
  client.reset()
  await until(() => pair.openConnections === 0)
  back.resolve()
  const other = await pair.client()
  other.write(rawRequest(['GET /b HTTP/1.1', 'Host: x']))
  await other.receives('200 OK')
  expect(requests).toBe(1)
  other.end()
})

it('sends a read again when the other node ends, but not for ever, and never a write', async () => {
  const begun: string[] = []
  const ending: RequestHandler = async ({ method }) => {
    begun.push(method)
    await pair.kill()
    await pair.start(ending)
  }
  const pair = await forwardingTo(ending)
  const reader = await pair.client()
  reader.write(rawRequest(['GET /a HTTP/1.1', 'Host: x']))
  await reader.receives(/503[\s\S]*is unknown/)
  expect(begun).toEqual(['GET', 'GET'])
  const writer = await pair.client()
  writer.write(rawRequest(['PUT /a HTTP/1.1', 'Host: x']))
  await writer.receives(/503[\s\S]*is unknown/)
  expect(begun).toEqual(['GET', 'GET', 'PUT'])
  reader.end()
  writer.end()
})

it('passes on a refusal that comes before the end of the upload', async () => {
  const pair = await forwardingTo((_, reply) => reply.send(413, '', 'too large'))
  const client = await pair.client()
  client.write(rawRequest(['PUT /a HTTP/1.1', 'Host: x', 'Content-Length: 100000000'], Buffer.alloc(1024 * 1024)))
  await client.receives(/413[\s\S]*Connection: close[\s\S]*too large$/)
  client.end()
  const next = await pair.client()
  next.write(rawRequest(['GET /b HTTP/1.1', 'Host: x']))
  await next.receives('413')
  next.end()
})

it('cuts a reply off that the other node has not finished', async () => {
  const pair = await forwardingTo((_, reply) => {
    reply.begin(200, '')
    reply.write(Buffer.from('the first part'))
  })
  const client = await pair.client()
  client.write(rawRequest(['GET /a HTTP/1.1', 'Host: x']))
  await client.receives('the first part')
  await pair.kill()
  expect(await client.closed()).not.toMatch(/0\r\n\r\n$/)
})

it('closes the connection of a client that has ended its side when the other node waits no longer', async () => {
  const gone = Promise.withResolvers<void>()
  const pair = await forwardingTo((_, reply) => void reply.onClose(() => gone.resolve()))
  const client = await pair.client()
  client.write(rawRequest(['GET /a HTTP/1.1', 'Host: x']))
  client.endSending()
  await gone.promise
  expect(await client.closed()).toBe('')
})

it('lets the other node end a reply without an end when this one closes', async () => {
  const pair = await forwardingTo((_, reply) => {
    reply.begin(200, '')
    reply.write(Buffer.from('a change'))
    reply.onShutdown(() => {
      reply.write(Buffer.from('the last line'))
      reply.end()
    })
  })
  const client = await pair.client()
  client.write(rawRequest(['GET /a HTTP/1.1', 'Host: x']))
  await client.receives('a change')
  pair.shutDown()
  expect(await client.closed()).toMatch(/the last line\r\n0\r\n\r\n$/)
})

it('closes the connection where the other node could not make the reply, and is still there', async () => {
  const pair = await forwardingTo((_, reply) => {
    reply.begin(200, '')
    reply.destroy()
  })
  for (const method of ['GET', 'POST']) {
    const client = await pair.client()
    client.write(rawRequest([`${method} /a HTTP/1.1`, 'Host: x']))
    expect(await client.closed()).toBe('')
  }
})

it('passes on that a client named no host', async () => {
  const pair = await forwardingTo(({ headers }, reply) => reply.send(200, '', JSON.stringify(headers)))
  const client = await pair.client()
  client.write('GET /a HTTP/1.0\r\nX-Other: 1\r\n\r\n')
  expect(await client.closed()).toContain('{"x-other":"1"}')
})
