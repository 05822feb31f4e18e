/** The process of a `MeasuredServer`: says where it listens, and how much memory it holds whenever it is asked. */
import { setTimeout as pause } from 'node:timers/promises'
import { createService } from '../../src/service.ts'
import { privateMegabytes } from './private-memory.ts'

const [, , dir = '', settings = '{}'] = process.argv
const service = await createService({ port: 0, dir, settings: JSON.parse(settings) })
process.send?.({ url: await service.listen() })

process.on('message', async () => {
  // What is let go by finalizers is free after the next round.
  for (let round = 0; round < 3; round++) {
    globalThis.gc?.()
    await pause(50)
  }
  const { heapUsed, external } = process.memoryUsage()
  process.send?.({ heldBytes: heapUsed + external, privateMegabytes: privateMegabytes('self') })
})
process.on('disconnect', async () => {
  await service.close()
  process.exit()
})
