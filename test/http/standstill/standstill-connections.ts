/** Many connections that each cost the server work at the same time: it does a little at a time for each of them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { StandstillServer } from '../../support/standstill-server.ts'
import type { StandstillLimits } from './standstill.ts'

const HEAD = 'Host: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n'
const CHUNKS_A_WRITE = 20_000

export interface CrowdSize {
  readonly connections: number
  /** In each of their bodies. */
  readonly chunks: number
}

export function holdsCrowds({ connections, chunks }: CrowdSize, limits: StandstillLimits): void {
  describe(`the server stands still for no longer than ${limits.longestMs} ms for ${connections} connections with`, () => {
    let server: StandstillServer

    beforeAll(async () => {
      server = await StandstillServer.start()
      await server.client.request('PUT', '/db')
      // What is compiled at the first request is not what is measured.
      await sendChunks('first', '1\r\n \r\n')
    }, 60_000)

    afterAll(() => server.stop())

    async function sendChunks(id: string, chunk: string): Promise<string> {
      const connection = await server.client.open()
      connection.write(`PUT /db/${id} HTTP/1.1\r\n${HEAD}1\r\n{\r\n`)
      for (let sent = 0; sent < chunks; sent += CHUNKS_A_WRITE) connection.write(chunk.repeat(CHUNKS_A_WRITE))
      connection.write('1\r\n}\r\n0\r\n\r\n')
      const reply = await connection.closed()
      return reply.slice(0, reply.indexOf('\r\n'))
    }

    it.each([
      ['chunks of one byte', 'byte', '1\r\n \r\n'],
      ['chunks of one byte with long sizes', 'size', '00000001\r\n \r\n'],
    ])('%s', { timeout: 600_000 }, async (_, id, chunk) => {
      const replies: string[] = []
      const standstill = await server.during(async () => {
        const all = Array.from({ length: connections }, (_, i) => sendChunks(`${id}${i}`, chunk))
        replies.push(...(await Promise.all(all)))
      })
      if (process.env.SETTLE_SHOW) console.log(Math.round(standstill.longestMs), 'ms')
      expect(new Set(replies)).toEqual(new Set(['HTTP/1.1 201 Created']))
      expect(standstill.longestMs).toBeLessThan(limits.longestMs)
    })
  })
}
