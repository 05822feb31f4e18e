/** Sends the worst inputs to a server and holds its longest turn below a bound. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestDatabase } from '../support/client.ts'
import { StandstillServer } from '../support/standstill-server.ts'
import { type InputSize, worstInputs } from './standstill-inputs.ts'

export interface StandstillLimits {
  /** Processor time of a turn of the event loop. */
  readonly longestMs: number
  readonly rssMb: number
}

export function holdsStandstill(size: InputSize, limits: StandstillLimits): void {
  describe(`the server stands still for no longer than ${limits.longestMs} ms for`, () => {
    let server: StandstillServer
    let database: TestDatabase

    beforeAll(async () => {
      server = await StandstillServer.start()
      database = await server.client.database()
      // What is compiled at the first request is not what is measured.
      await database.request('PUT', '/first', { body: {} })
    }, 60_000)

    afterAll(() => server.stop())

    // The garbage collector takes a turn of its own now and then; what stands still does so every time, compiled or not.
    it.each(worstInputs(size))('$name', { timeout: 600_000, retry: 4 }, async ({ prepare, send, status }) => {
      await prepare?.(database)
      const replies: { status: number; text: string }[] = []
      const standstill = await server.during(async () => {
        const reply = await send(database)
        replies.push({ status: reply.status, text: reply.body.toString('utf8', 0, 300) })
      })
      if (process.env.SETTLE_SHOW)
        console.log(Math.round(standstill.longestMs), 'ms', Math.round(standstill.rssMb), 'MB')
      expect(replies).toMatchObject([{ status }])
      expect(standstill.longestMs).toBeLessThan(limits.longestMs)
      expect(standstill.rssMb).toBeLessThan(limits.rssMb)
    })
  })
}
