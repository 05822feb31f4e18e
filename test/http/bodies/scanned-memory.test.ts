import { expect, it, onTestFinished } from 'vitest'
import { StandstillServer } from '../../support/standstill-server.ts'

const BODY_BYTES = 120 * 1024 * 1024
const ROUNDS = 3

it('a very large body does not block the event loop, and its memory is freed', { timeout: 120_000 }, async () => {
  const server = await StandstillServer.start()
  onTestFinished(() => server.stop())
  await server.client.request('PUT', '/db')
  const send = (bytes: number) =>
    server.client.request('PUT', '/db/document', {
      body: Buffer.alloc(bytes, ' '),
      headers: { 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' },
    })
  const before = await server.during(() => send(1024 * 1024))
  const replies: number[] = []
  const { longestMs, rssMb } = await server.during(async () => {
    for (let round = 0; round < ROUNDS; round++) replies.push((await send(BODY_BYTES)).status)
  })
  if (process.env.SETTLE_SHOW) console.log(before.rssMb, rssMb, longestMs)
  expect(replies).toEqual(Array(ROUNDS).fill(400))
  expect(longestMs).toBeLessThan(50)
  expect(rssMb - before.rssMb).toBeLessThan(220)
})
