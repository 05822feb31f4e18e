import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RequestHandler } from '../../src/wire/connection.ts'
import { sentBytes as bytesSentOn, DEFAULT_LIMITS } from '../../src/wire/connection-limits.ts'
import { BodyAbortedError } from '../../src/wire/incoming-body.ts'
import type { Reply } from '../../src/wire/reply.ts'
import { until } from '../support/until.ts'
import { understoodAsNodeDoes } from './node-comparison.ts'
import { settled, turns, wireServer } from './wire-server.ts'

const HEAD = 'Host: x\r\n'
const LAST = `${HEAD}Connection: close\r\n\r\n`
const LONG_MS = 1_000_000
/** More than the system takes for a client that does not read. */
const LONG_BYTES = 96_000_000

/** Answers each request with its method, its target and its body. */
const echo: RequestHandler = async ({ method, url, body }, reply) => {
  const bytes = await body.collect(1_000_000).catch(() => undefined)
  reply.send(200, '', `${method} ${url} ${bytes?.toString('latin1')}`)
}

/** Bodies of replies, which have a length each. */
function bodies(received: string): string[] {
  return received.split(/HTTP\/1\.1 \d.*?\r\n\r\n/s).slice(1)
}

describe('a connection that is detached', () => {
  const request = (path: string) => `GET ${path} HTTP/1.1\r\n${HEAD}\r\n`

  it('reads nothing until it is attached again, and then misses nothing', async () => {
    const { open, connections, sockets, arrived } = await wireServer(echo)
    const client = await open()
    client.write(request('/0'))
    await client.receives('GET /0')
    expect(connections[0]?.detach()).toMatchObject({ received: Buffer.alloc(0) })
    const readBytes = sockets[0]?.bytesRead ?? 0
    client.write(request('/1') + request('/2'))
    await until(() => client.isDrained)
    await turns(20)
    expect(sockets[0]?.bytesRead).toBe(readBytes)
    connections[0]?.reattach()
    await client.receives('GET /2')
    expect(bodies(client.received)).toEqual(['GET /0 ', 'GET /1 ', 'GET /2 '])
    await arrived(readBytes)
    client.end()
  })

  it('gives what it has received, the beginning of a head included, and keeps it', async () => {
    const { open, connections, arrived } = await wireServer(echo)
    for (const cut of [1, 10, request('/later').length - 1]) {
      const client = await open()
      const begun = request('/later').slice(0, cut)
      client.write(request('/0') + begun)
      await client.receives('GET /0')
      await arrived(request('/0').length + cut)
      const connection = connections.at(-1)
      expect(connection?.detach()?.received.toString()).toBe(begun)
      connection?.reattach()
      client.write(request('/later').slice(cut))
      await client.receives('GET /later')
      client.end()
    }
  })

  it('is none while a request is under way, where it is not kept alive, or is detached already', async () => {
    let answer = () => {}
    const { open, connections } = await wireServer(({ url }, reply) => {
      answer = () => reply.send(200, '', url)
    })
    const client = await open()
    client.write(request('/0'))
    await until(() => connections[0]?.requests === 1)
    const [connection] = connections
    expect(connection?.detach()).toBeUndefined()
    answer()
    expect(connection?.detach()).toBeDefined()
    expect(connection?.detach()).toBeUndefined()
    connection?.reattach()
    client.write(`GET /last HTTP/1.1\r\n${LAST}`)
    await until(() => connection?.requests === 2)
    answer()
    expect(connection?.detach()).toBeUndefined()
    client.end()
  })
})

describe('requests of one connection', () => {
  it('are answered in their order, however the bytes are cut', async () => {
    const { open, arrived } = await wireServer(async (request, reply) => {
      // The later ones would be quicker.
      await turns(request.url === '/0' ? 10 : 1)
      await echo(request, reply)
    })
    const sent = Buffer.from(
      `GET /0 HTTP/1.1\r\n${HEAD}\r\n\r\n` +
        `PUT /1 HTTP/1.1\r\n${HEAD}Content-Length: 3\r\n\r\nabc` +
        `POST /2 HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n` +
        `GET /3 HTTP/1.1\r\n${LAST}GET /never HTTP/1.1\r\n${HEAD}\r\n`,
    )
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(sent.length), { maxLength: 4 }), async (places) => {
        const connection = await open()
        const ends = [...places, sent.length].sort((a, b) => a - b)
        for (const [i, end] of ends.entries()) {
          connection.write(sent.subarray(ends[i - 1] ?? 0, end))
          await arrived(end)
        }
        expect(bodies(await connection.closed())).toEqual(['GET /0 ', 'PUT /1 abc', 'POST /2 def', 'GET /3 '])
      }),
      { numRuns: 30 },
    )
  })

  it('are never understood in another way than Node understands them', () => understoodAsNodeDoes(200))

  it('are not read on while a client does not take its replies', async () => {
    let answered = 0
    const { open, sockets } = await wireServer((_, reply) => {
      answered++
      reply.send(200, '', 'x'.repeat(1_000_000))
    })
    const connection = await open()
    connection.pause()
    connection.write(`GET / HTTP/1.1\r\n${HEAD}\r\n`.repeat(1000))
    await expect.poll(() => answered > 1 && sockets[0]?.writableNeedDrain).toBe(true)
    await settled(() => answered)
    expect(answered).toBeLessThan(100)
    connection.end()
  })
})

describe('what is not a request', () => {
  it.each([
    ['nonsense\r\n\r\n', 400],
    ['GET / HTTP/1.1\nHost: x\n\n', 400],
    ['\0', 400],
    [`GET / HTTP/1.1\r\n${HEAD}Expect: wonders\r\nContent-Length: 1\r\n\r\n`, 417],
    [`${'b'.repeat(70_000)}`, 400],
    [`POST / HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\nx\r\n`, 400],
  ])('%.40j is refused', async (text, status) => {
    const { open } = await wireServer(echo)
    const connection = await open()
    connection.write(text)
    const received = await connection.closed()
    const head = `^HTTP/1.1 ${status} .*\r\nDate: .*\r\nConnection: close\r\nContent-Length: 0\r\n\r\n$`
    expect(received).toMatch(new RegExp(head))
  })

  it('is refused after the replies to what came before', async () => {
    const { open } = await wireServer(async (request, reply) => {
      await turns()
      await echo(request, reply)
    })
    const connection = await open()
    connection.write(`GET /a HTTP/1.1\r\n${HEAD}\r\nnonsense\r\n\r\n`)
    await connection.closed()
    expect(connection.statuses).toEqual(['200', '400'])
  })

  it('is found in a body while its request is under way', async () => {
    const failures: unknown[] = []
    const { open, arrived } = await wireServer(({ body }) => {
      body.collect(100).catch((error) => failures.push(error))
    })
    const connection = await open()
    const begin = `POST / HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n`
    connection.write(begin)
    await arrived(begin.length)
    connection.write('nonsense\r\n')
    expect(await connection.closed()).toMatch(/^HTTP\/1.1 400 /)
    expect(failures[0]).toBeInstanceOf(BodyAbortedError)
  })
})

describe('a body', () => {
  it('is asked for when somebody reads it', async () => {
    const { open } = await wireServer(echo)
    const connection = await open()
    connection.write(`PUT / HTTP/1.1\r\n${HEAD}Expect: 100-Continue\r\nConnection: close\r\nContent-Length: 3\r\n\r\n`)
    await connection.receives('HTTP/1.1 100 Continue\r\n\r\n')
    connection.write('abc')
    expect(bodies(await connection.closed())).toEqual(['', 'PUT / abc'])
  })

  it('that nobody reads ends the connection with the reply, which still arrives', async () => {
    const { open } = await wireServer((_, reply) => reply.send(413, '', 'too much'))
    const connection = await open()
    connection.write(`PUT / HTTP/1.1\r\n${HEAD}Content-Length: 100000000\r\n\r\n`)
    for (let i = 0; i < 100; i++) connection.write(Buffer.alloc(100_000))
    await connection.receives(/^HTTP\/1\.1 413 [\s\S]*Connection: close\r\n[\s\S]*too much$/)
    connection.end()
  })

  it.each([1_000, 256 * 1024 + 1])(
    'of %i bytes that was received and not read does not block the next request',
    async (size) => {
      const { open, arrived } = await wireServer(async ({ url, body }, reply) => {
        if (url === '/unread') await expect.poll(() => body.isComplete).toBe(true)
        reply.send(200, '', url)
      })
      const connection = await open()
      const head = `PUT /unread HTTP/1.1\r\n${HEAD}Content-Length: ${size}\r\n\r\n`
      connection.write(head)
      await arrived(head.length)
      connection.write(Buffer.alloc(size))
      await connection.receives('/unread')
      connection.write(`GET /next HTTP/1.1\r\n${LAST}`)
      expect(bodies(await connection.closed())).toEqual(['/unread', '/next'])
    },
  )

  it('is not taken in faster than it is read', async () => {
    const { promise, resolve: readOn } = Promise.withResolvers<void>()
    let size = 0
    const { open, sockets } = await wireServer(async ({ body }, reply) => {
      for await (const piece of body.read()) {
        size += piece.length
        await promise
      }
      reply.send(200, '', String(size))
    })
    const connection = await open()
    const all = 40_000_000
    connection.write(`PUT / HTTP/1.1\r\n${HEAD}Content-Length: ${all}\r\nConnection: close\r\n\r\n`)
    connection.write(Buffer.alloc(all))
    await expect.poll(() => sockets[0]?.isPaused()).toBe(true)
    await settled(() => sockets[0]?.bytesRead ?? 0)
    expect(sockets[0]?.bytesRead).toBeLessThan(all / 10)
    readOn()
    expect(bodies(await connection.closed())).toEqual([String(all)])
  })

  it('is aborted when its client disconnects', async () => {
    const { promise: failed, resolve: fail } = Promise.withResolvers<unknown>()
    const { open, arrived } = await wireServer(async ({ body }) => {
      try {
        for await (const _ of body.read());
      } catch (error) {
        fail(error)
      }
    })
    const connection = await open()
    const begin = `PUT / HTTP/1.1\r\n${HEAD}Content-Length: 10\r\n\r\nabc`
    connection.write(begin)
    await arrived(begin.length)
    connection.end()
    expect(await failed).toBeInstanceOf(BodyAbortedError)
  })
})

describe('a reply', () => {
  it.each<[name: string, version: string, send: (reply: Reply) => void, expected: RegExp]>([
    ['that is whole', '1.1', (reply) => reply.send(200, '', 'é'), /Content-Length: 2\r\n[\s\S]*\r\n\r\n\xc3\xa9$/],
    [
      'of bytes',
      '1.1',
      (reply) => reply.send(200, '', Buffer.from([0xff])),
      /Content-Length: 1\r\n[\s\S]*\r\n\r\n\xff$/,
    ],
    [
      'that is long',
      '1.1',
      (reply) => reply.send(200, '', 'x'.repeat(100_000)),
      /Content-Length: 100000\r\n[\s\S]*\r\n\r\nx{100000}$/,
    ],
    [
      'without a size',
      '1.1',
      (reply) => reply.send(200, '', 'abc', true),
      /chunked\r\n[\s\S]*\r\n\r\n3\r\nabc\r\n0\r\n\r\n$/,
    ],
    [
      'of nothing without a size',
      '1.1',
      (reply) => reply.send(200, '', '', true),
      /chunked\r\n[\s\S]*\r\n\r\n0\r\n\r\n$/,
    ],
    ['that is old', '1.0', (reply) => reply.send(200, '', 'abc', true), /Connection: close\r\n\r\nabc$/],
    ['that says nothing new', '1.1', (reply) => reply.send(304, '', 'abc'), /^((?!Content-Length)[\s\S])*\r\n\r\n$/],
    ['without a body', '1.1', (reply) => reply.send(204, '', ''), /^((?!Content-Length)[\s\S])*\r\n\r\n$/],
    [
      'in pieces',
      '1.1',
      (reply) => {
        reply.begin(200, '')
        reply.write('a')
        reply.write('')
        reply.write(Buffer.from('b'))
        reply.write('c'.repeat(70_000))
        reply.end()
      },
      /chunked\r\n[\s\S]*\r\n\r\n1\r\na\r\n1\r\nb\r\n11170\r\nc{70000}\r\n0\r\n\r\n$/,
    ],
    [
      'in pieces of a known size',
      '1.1',
      (reply) => {
        reply.begin(200, '', 3)
        reply.write('ab')
        reply.write('c')
        reply.end()
      },
      /Content-Length: 3\r\n[\s\S]*\r\n\r\nabc$/,
    ],
    [
      'that is shorter than it said',
      '1.1',
      (reply) => {
        reply.begin(200, '', 3)
        reply.end()
      },
      /^$/,
    ],
  ])('%s', async (_, version, send, expected) => {
    const { open } = await wireServer((__, reply) => send(reply))
    const connection = await open()
    connection.write(`GET / HTTP/${version}\r\n${LAST}`)
    expect(await connection.closed()).toMatch(expected)
  })

  it('to HEAD has the size, and no body', async () => {
    const { open } = await wireServer((_, reply) => reply.send(200, '', 'abc'))
    const connection = await open()
    connection.write(`HEAD / HTTP/1.1\r\n${LAST}`)
    expect(await connection.closed()).toMatch(/Content-Length: 3\r\n[\s\S]*\r\n\r\n$/)
  })

  it('reports when it is sent, and when its client is gone', async () => {
    const told: string[] = []
    const { open } = await wireServer(({ url }, reply) => {
      reply.onClose(() => told.push(url))
      const stop = reply.onClose(() => told.push('never'))
      stop()
      if (url === '/sent') reply.send(200, '', 'x')
    })
    const connection = await open()
    connection.write(`GET /sent HTTP/1.1\r\n${HEAD}\r\nGET /gone HTTP/1.1\r\n${HEAD}\r\n`)
    await expect.poll(() => told).toEqual(['/sent'])
    connection.end()
    await expect.poll(() => told).toEqual(['/sent', '/gone'])
  })
})

describe('a connection', () => {
  it.each([
    ['without a request is let go', '', ''],
    ['that does not get to the end of a head is told so', 'GET / HTTP/1.1\r\nHost', 'HTTP/1.1 408 Request Timeout'],
    [
      'that does not get to the end of a body is told so',
      `PUT / HTTP/1.1\r\n${HEAD}Content-Length: 3\r\n\r\na`,
      'HTTP/1.1 408 Request Timeout',
    ],
  ])('%s, when it is silent for too long', async (_, sent, expected) => {
    const { open, connections, arrived } = await wireServer(echo)
    const connection = await open()
    connection.write(sent)
    await arrived(sent.length)
    connections[0]?.reapIfIdle(performance.now())
    connections[0]?.reapIfIdle(performance.now() + LONG_MS)
    expect((await connection.closed()).split('\r\n')[0]).toBe(expected)
  })

  it.each([
    ['trickles is told so', 1, DEFAULT_LIMITS, '408'],
    ['comes slowly is read on', 100_000, DEFAULT_LIMITS, undefined],
    ['takes too long in all is told so', 100_000, { ...DEFAULT_LIMITS, bodyMs: 150_000 }, '408'],
  ])('whose body %s', async (_, sentBytes, limits, expected) => {
    const { open, connections, arrived } = await wireServer(async ({ body }) => {
      await body.collect(1_000_000).catch(() => undefined)
    })
    const connection = await open()
    const sent = `PUT / HTTP/1.1\r\n${HEAD}Content-Length: 200000\r\n\r\n${'x'.repeat(sentBytes)}`
    connection.write(sent)
    await arrived(sent.length)
    const now = performance.now()
    connections[0]?.reapIfIdle(now + 100_000, limits)
    connections[0]?.reapIfIdle(now + 200_000, limits)
    if (expected !== undefined) await connection.closed()
    expect(connection.statuses[0]).toBe(expected)
    connection.end()
  })

  it.each<[string, string, (reply: Reply) => Promise<void> | void, boolean?]>([
    [
      'in the middle of a reply',
      LAST,
      async (reply) => {
        reply.begin(200, '')
        const block = Buffer.alloc(8_000_000)
        for (let sent = 0; sent < LONG_BYTES; sent += block.length) if (!reply.write(block)) await reply.drained()
        reply.end()
      },
    ],
    ['when the last reply is in the send queue', LAST, (reply) => reply.send(200, '', Buffer.alloc(LONG_BYTES))],
    ['when a reply is in the send queue', `${HEAD}\r\n`, (reply) => reply.send(200, '', Buffer.alloc(LONG_BYTES))],
    ['when it has ended its side', `${HEAD}\r\n`, (reply) => reply.send(200, '', Buffer.alloc(LONG_BYTES)), true],
  ])('is not cut off while its client takes something, however slowly: %s', async (_, lines, answer, endsItsSide) => {
    const { open, connections, sockets } = await wireServer((_, reply) => answer(reply))
    const connection = await open()
    connection.pause()
    connection.write(`GET / HTTP/1.1\r\n${lines}`)
    if (endsItsSide) connection.endSending()
    await expect.poll(() => sockets[0]?.writableLength).toBeGreaterThan(0)
    const [served] = connections
    const sent = () => (sockets[0] ? bytesSentOn(sockets[0]) : 0)
    let nowMs = performance.now()
    for (let taken = 0; taken < 3; taken++) {
      // The client reads, and the system takes more of what was written.
      const before = sent()
      connection.resume()
      await expect.poll(sent, { interval: 1 }).toBeGreaterThan(before)
      connection.pause()
      nowMs += 200_000
      served?.reapIfIdle(nowMs)
      expect(sockets[0]?.destroyed).toBe(false)
    }
    // What is on its way has arrived then.
    await settled(sent)
    served?.reapIfIdle(nowMs)
    served?.reapIfIdle(nowMs + 301_000)
    connection.resume()
    expect((await connection.closed()).length).toBeLessThan(LONG_BYTES)
  })

  it('whose request takes long is left alone', async () => {
    const { promise, resolve: answer } = Promise.withResolvers<void>()
    const { open, connections, arrived } = await wireServer(async (_, reply) => {
      await promise
      reply.send(200, '', 'there')
    })
    const connection = await open()
    const request = `GET / HTTP/1.1\r\n${LAST}`
    connection.write(request)
    await arrived(request.length)
    connections[0]?.reapIfIdle(performance.now() + LONG_MS)
    answer()
    expect(await connection.closed()).toContain('there')
  })

  it('whose client sends on after its last request gets the last reply', async () => {
    const { open, sockets } = await wireServer((_, reply) => reply.send(200, '', 'last'))
    const connection = await open()
    connection.pause()
    connection.write(`GET / HTTP/1.1\r\n${LAST}`)
    await expect.poll(() => sockets[0]?.writableEnded).toBe(true)
    // A server that has closed answers this with a reset, and what the client has not read is lost.
    for (let i = 0; i < 20; i++) {
      connection.write('x')
      await turns(20)
    }
    connection.resume()
    expect(await connection.closed()).toMatch(/last$/)
  })

  it('whose client floods it behind its last request is noticed when it goes', async () => {
    const { promise: gone, resolve } = Promise.withResolvers<void>()
    const { open, sockets } = await wireServer((_, reply) => void reply.onClose(resolve))
    const connection = await open()
    connection.write(`GET / HTTP/1.1\r\n${LAST}`)
    connection.write(Buffer.alloc(4_000_000, 'x'))
    connection.endSending()
    await gone
    await expect.poll(() => sockets[0]?.destroyed).toBe(true)
  })

  it('that closes finishes the request under way, and takes no more', async () => {
    let shutdowns = 0
    const { open, connections, arrived } = await wireServer((_, reply) => {
      reply.onShutdown(() => {
        shutdowns++
        reply.send(200, '', 'last')
      })
    })
    const idle = await open()
    const busy = await open()
    const requests = `GET / HTTP/1.1\r\n${HEAD}\r\nGET / HTTP/1.1\r\n${HEAD}\r\n`
    busy.write(requests)
    await expect.poll(() => connections.length).toBe(2)
    await arrived(requests.length)
    for (const connection of connections) connection.closeWhenDone()
    expect(await idle.closed()).toBe('')
    expect(await busy.closed()).toMatch(/Connection: close\r\n[\s\S]*last$/)
    expect([shutdowns, busy.statuses]).toEqual([1, ['200']])
  })
})
