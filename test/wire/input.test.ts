import { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { Connection } from '../../src/wire/connection.ts'
import { wireServer } from './wire-server.ts'

/** The processor time that a head takes of which each byte comes alone. */
async function cost(lengthBytes: number): Promise<number> {
  const socket = new Socket()
  const urls: string[] = []
  const connection = new Connection(socket, ({ url }) => urls.push(url))
  const head = Buffer.from(`GET /x HTTP/1.1\r\nHost: x\r\na: ${'b'.repeat(lengthBytes)}\r\n\r\n`)
  const before = process.cpuUsage()
  for (let at = 0; at < head.length; at++) {
    socket.emit('data', head.subarray(at, at + 1))
    await nextTurn()
  }
  const { user, system } = process.cpuUsage(before)
  expect(urls).toEqual(['/x'])
  connection.destroy()
  return user + system
}

describe('a head that comes byte by byte', () => {
  it('costs in proportion to its length', async () => {
    await cost(6_000)
    const short = await cost(6_000)
    const long = await cost(60_000)
    // Ten times as long; looked through anew for each byte it would cost a hundred times as much.
    expect(long / short).toBeLessThan(30)
  })

  it.each(['GET / HTTP/1.1\r\nHost: x\r\na: b\0', 'GET / HTTP/1.1\n', 'GET / HTTP/1.1\rHost', '\r\n\r\n\n'])(
    'is refused at the first byte that no head can have: %j',
    async (text) => {
      const { open } = await wireServer((_, reply) => reply.send(200, '', ''))
      const connection = await open()
      for (const character of text) {
        connection.write(character)
        await nextTurn()
      }
      expect(await connection.closed()).toMatch(/^HTTP\/1.1 400 /)
    },
  )

  it('may have empty lines before it', async () => {
    const { open } = await wireServer(({ url }, reply) => reply.send(200, '', url))
    const connection = await open()
    for (const character of '\r\n\r\n\r\nGET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n') {
      connection.write(character)
      await nextTurn()
    }
    expect(await connection.closed()).toMatch(/^HTTP\/1.1 200 [\s\S]*\/x$/)
  })
})
