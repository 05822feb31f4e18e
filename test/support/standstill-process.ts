/**
 * The process of a `StandstillServer`. It measures how much processor time its main thread takes between two chances for
 * everybody else: a timer that is always due is served between any two turns of the event loop. Processor time, since
 * a loaded machine stretches the clock.
 */
import { createService } from '../../src/service.ts'

const service = await createService({ port: 0, dir: process.argv[2] ?? '' })

let longestUs = 0
let before = usedUs()

function usedUs(): number {
  const { user, system } = process.threadCpuUsage()
  return user + system
}

function measure(): void {
  const now = usedUs()
  longestUs = Math.max(longestUs, now - before)
  before = now
  setTimeout(measure, 1)
}

process.on('message', (message) => {
  if (message === 'reset') {
    globalThis.gc?.()
    longestUs = 0
    before = usedUs()
  }
  process.send?.({ longestMs: longestUs / 1000, rssMb: process.memoryUsage.rss() / 2 ** 20 })
})
process.on('disconnect', async () => {
  await service.close()
  process.exit()
})

process.send?.({ url: await service.listen() })
measure()
