/**
 * RFC 9112, section by section: what decides where a message begins and ends, for requests and for replies, and the known
 * ways to smuggle a request past a server in front. `test/http/connections/framing.test.ts` has the malformed headers and chunks.
 */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { RawConnection } from '../support/client.ts'
import { wireServer } from './wire-server.ts'

/** A server that reads the body, or not, and returns the requests that it got. */
async function server({ readsBody = true } = {}) {
  const seen: string[] = []
  const wire = await wireServer(async ({ method, url, body }, reply) => {
    const text = readsBody ? await body.collect(1_000_000).then(String, () => 'aborted') : ''
    seen.push(`${method} ${url} ${text}`.trim())
    reply.send(200, 'Content-Type: text/plain\r\n', `[${url}]`)
  })
  const exchange = async (text: string, pieces = [text]) => {
    const connection = await wire.open()
    for (const piece of pieces) connection.write(Buffer.from(piece, 'latin1'))
    connection.endSending()
    await connection.closed()
    return connection
  }
  return { seen, exchange }
}

const GET = 'GET /a HTTP/1.1\r\nHost: x\r\n\r\n'
const HIDDEN = 'GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n'

describe('2.2: a message', () => {
  it('may follow empty lines, which some clients send behind a body', async () => {
    const { seen, exchange } = await server()
    const { statuses } = await exchange(`\r\n\r\n${GET}\r\n${GET}`)
    expect([seen, statuses]).toEqual([
      ['GET /a', 'GET /a'],
      ['200', '200'],
    ])
  })

  it.each([
    ['bare line feeds', GET.replaceAll('\r\n', '\n')],
    ['bare carriage returns', GET.replaceAll('\r\n', '\r')],
    ['white space before the first header', 'GET /a HTTP/1.1\r\n Host: x\r\n\r\n'],
    ['a NUL', GET.replace('/a', '/a\0')],
  ])('with %s is refused, and nothing after it is read', async (_, text) => {
    const { seen, exchange } = await server()
    const { statuses } = await exchange(text + HIDDEN)
    expect([seen, statuses]).toEqual([[], ['400']])
  })

  it('is the same in single bytes', async () => {
    const { seen, exchange } = await server()
    const post = 'POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;e=f\r\nabc\r\n0\r\nT: u\r\n\r\n'
    await exchange('', [...(post + GET)])
    expect(seen).toEqual(['POST /b abc', 'GET /a'])
  })
})

describe('2.3 and 3: a request line', () => {
  it.each([
    ['no version', 'GET /a'],
    ['a version in lower case', 'GET /a http/1.1'],
    ['two digits', 'GET /a HTTP/1.10'],
    ['no digits', 'GET /a HTTP/x.y'],
    ['two blanks', 'GET  /a HTTP/1.1'],
    ['a tab', 'GET\t/a HTTP/1.1'],
    ['a blank at the end', 'GET /a HTTP/1.1 '],
    ['a blank in the target', 'GET /a b HTTP/1.1'],
    ['a blank at the beginning', ' GET /a HTTP/1.1'],
    ['an asterisk that no OPTIONS has', 'GET * HTTP/1.1'],
    ['no slash', 'GET a HTTP/1.1'],
    ['an authority', 'GET x:80 HTTP/1.1'],
  ])('with %s is refused', async (_, line) => {
    const { seen, exchange } = await server()
    const { statuses } = await exchange(`${line}\r\nHost: x\r\n\r\n${HIDDEN}`)
    expect(seen).toEqual([])
    expect(statuses).toEqual([expect.stringMatching(/^(?:400|505)$/)])
  })

  it.each(['HTTP/2.0', 'HTTP/3.0', 'HTTP/0.9', 'HTTP/9.9'])(
    'of another major version is refused: %s',
    async (version) => {
      const { seen, exchange } = await server()
      const { statuses } = await exchange(`GET /a ${version}\r\nHost: x\r\n\r\n${HIDDEN}`)
      expect(seen).toEqual([])
      expect(statuses).toHaveLength(1)
    },
  )

  it('of HTTP/2 with prior knowledge is not answered as HTTP/1.1', async () => {
    const { seen, exchange } = await server()
    await exchange(`PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${HIDDEN}`)
    expect(seen).toEqual([])
  })
})

describe('3.2: a host', () => {
  it.each([
    ['missing', ''],
    ['given twice', 'Host: x\r\nHost: x\r\n'],
    ['given twice, the second one hidden by its case', 'Host: x\r\nhOST: y\r\n'],
    ['with a path', 'Host: x/y\r\n'],
    ['with a user', 'Host: u@x\r\n'],
    ['with a blank', 'Host: x y\r\n'],
  ])('%s is refused', async (_, lines) => {
    const { seen, exchange } = await server()
    expect((await exchange(`GET /a HTTP/1.1\r\n${lines}\r\n${HIDDEN}`)).statuses).toEqual(['400'])
    expect(seen).toEqual([])
  })
})

describe('6.1 to 6.3: a body of a request', () => {
  it.each([
    ['by its length', 'Content-Length: 33\r\n', HIDDEN.slice(0, 33)],
    ['by chunks', 'Transfer-Encoding: chunked\r\n', `${HIDDEN.length.toString(16)}\r\n${HIDDEN}\r\n0\r\n\r\n`],
    [
      'by chunks whose name has other letters',
      'Transfer-Encoding: CHUNKED\r\n',
      `${HIDDEN.length.toString(16)}\r\n${HIDDEN}\r\n0\r\n\r\n`,
    ],
  ])('ends %s, whatever is in it, with every method, read or not', async (_, lines, body) => {
    for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'POST', 'PUT']) {
      for (const readsBody of [true, false]) {
        const { seen, exchange } = await server({ readsBody })
        await exchange(`${method} /a HTTP/1.1\r\nHost: x\r\n${lines}\r\n${body}${GET}`)
        expect(
          seen.map((each) => each.split(' ')[1]),
          `${method} ${readsBody}`,
        ).toEqual(['/a', '/a'])
      }
    }
  })

  it('is empty without a length or chunks: what follows is a request', async () => {
    const { seen, exchange } = await server()
    await exchange(`POST /a HTTP/1.1\r\nHost: x\r\n\r\n${HIDDEN}`)
    expect(seen).toEqual(['POST /a', 'GET /hidden'])
  })

  it('that does not end is not a body', async () => {
    const { seen, exchange } = await server()
    await exchange('PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc')
    await exchange('PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n')
    await exchange('PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n')
    expect(seen.filter((each) => !each.endsWith('aborted'))).toEqual([])
  })

  it.each([
    ['a length and chunks', 'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n'],
    ['chunks and a length', 'Transfer-Encoding: chunked\r\nContent-Length: 4\r\n'],
    ['two lengths', 'Content-Length: 5\r\nContent-Length: 0\r\n'],
    ['a list of lengths', 'Content-Length: 5, 5\r\n'],
    ['a length with an underscore as other servers take it', 'Content-Length: 1_0\r\n'],
    ['a length in other digits', 'Content-Length: \xb2\r\n'],
    ['chunks that are not last', 'Transfer-Encoding: chunked, identity\r\n'],
    ['chunks that are hidden by a blank', 'Transfer-Encoding : chunked\r\n'],
    ['chunks in a folded line', 'X: y\r\n Transfer-Encoding: chunked\r\n'],
    ['chunks behind a carriage return', 'X: y\rTransfer-Encoding: chunked\r\n'],
  ])('with %s is refused, and nothing behind it is a request', async (_, lines) => {
    const { seen, exchange } = await server()
    const { statuses } = await exchange(`POST /a HTTP/1.1\r\nHost: x\r\n${lines}\r\n0\r\n\r\n${HIDDEN}`)
    expect([seen, statuses]).toEqual([[], ['400']])
  })

  it('of an unknown coding is not understood, and nothing behind it is a request', async () => {
    const { seen, exchange } = await server()
    const { statuses } = await exchange(
      `POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
    )
    expect(seen.filter((each) => each.includes('hidden'))).toEqual([])
    expect(statuses.length).toBeLessThanOrEqual(1)
  })

  it('that a client sends after a refused Expect is not taken as a request', async () => {
    const { seen, exchange } = await server({ readsBody: false })
    const head = `PUT /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: ${HIDDEN.length}\r\n\r\n`
    await exchange('', [head, HIDDEN])
    expect(seen).toEqual(['PUT /a'])
  })
})

describe('6 and 7: a reply', () => {
  it('to HEAD has the length and no body; the next one begins at once', async () => {
    const { exchange } = await server()
    const { received } = await exchange(`HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n${GET}`)
    expect(received).toMatch(
      /^HTTP\/1\.1 200 OK\r\n(?:[^\r]+\r\n)*Content-Length: 4\r\n(?:[^\r]+\r\n)*\r\nHTTP\/1\.1 200 OK/,
    )
    expect(received).toMatch(/\[\/a\]$/)
  })

  it('in pieces has chunks for HTTP/1.1, and ends with the connection for HTTP/1.0', async () => {
    const wire = await wireServer((_, reply) => {
      reply.begin(200, 'Content-Type: text/plain\r\n')
      reply.write('one')
      reply.write('two')
      reply.end()
    })
    const ask = async (version: string) => {
      const connection = await wire.open()
      connection.write(
        `GET / HTTP/${version}\r\nHost: x\r\nConnection: ${version === '1.0' ? 'keep-alive' : 'close'}\r\n\r\n`,
      )
      return connection.closed()
    }
    expect(await ask('1.1')).toMatch(/Transfer-Encoding: chunked.*\r\n\r\n.*one.*two.*\r\n0\r\n\r\n$/s)
    const old = await ask('1.0')
    expect(old).toMatch(/\r\n\r\nonetwo$/)
    expect(old).not.toMatch(/Transfer-Encoding|keep-alive/i)
  })
})

describe('9: a connection', () => {
  it.each([
    ['HTTP/1.1', '', 2],
    ['HTTP/1.1', 'Connection: close\r\n', 1],
    ['HTTP/1.1', 'Connection: keep-alive, Close\r\n', 1],
    ['HTTP/1.0', '', 1],
    ['HTTP/1.0', 'Connection: keep-alive\r\n', 2],
    ['HTTP/1.0', 'Connection: keep-alive, close\r\n', 1],
  ])('of %s with %j takes so many requests: %d', async (version, line, count) => {
    const { exchange } = await server()
    const { statuses } = await exchange(`GET /a ${version}\r\nHost: x\r\n${line}\r\n${GET}`)
    expect(statuses).toHaveLength(count)
  })

  it('answers pipelined requests in order', async () => {
    const { exchange } = await server()
    const requests = Array.from({ length: 50 }, (_, i) => `GET /${i} HTTP/1.1\r\nHost: x\r\n\r\n`)
    const { received } = await exchange(requests.join(''))
    expect([...received.matchAll(/\[\/(\d+)\]/g)].map(([, i]) => Number(i))).toEqual(requests.map((_, i) => i))
  })

  it('is not taken over by an upgrade that nobody offers', async () => {
    const { exchange } = await server()
    const upgrade = 'GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c, websocket\r\n\r\n'
    expect((await exchange(upgrade + GET)).statuses).toEqual(['200', '200'])
  })
})

describe('a test like these', () => {
  it('finds a server that takes every head for a request', async () => {
    let heads = 0
    const naive = createServer((socket) => {
      let text = ''
      socket
        .on('error', () => {})
        .on('data', (data) => {
          text += data.toString('latin1')
          for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
            text = text.slice(end + 4)
            heads++
            socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
          }
        })
    })
    await once(naive.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => {
      naive.close()
    })
    const { port } = naive.address() as AddressInfo
    const connection = await RawConnection.open(new URL(`http://127.0.0.1:${port}/`))
    connection.write(`GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`)
    connection.endSending()
    await connection.closed()
    expect(heads).toBe(2)
  })
})
