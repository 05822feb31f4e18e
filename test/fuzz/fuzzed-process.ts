/**
 * The server that is fuzzed, in a process of its own: a crash is seen, and its memory and sockets are its own. With the name
 * of a plant it has that bug, by a front that stands between the clients and the server.
 */
import { readdirSync, readlinkSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { createService } from '../../src/service.ts'
import { withQuickHashes } from '../support/quick-hashes.ts'
import { plantedFront } from './planted-front.ts'

const [, , dir = '', plant = ''] = process.argv
const settings = {
  admins: { admin: 'secret' },
  httpd: { body_memory_timeout: '5000', changes_timeout: '2000' },
  service: { os_process_timeout: '5000' },
  // Otherwise it is made with the first session.
  service_httpd_auth: { secret: 'secret' },
  replicator: { connection_timeout: '500', retries_per_request: '1' },
}
const service = await createService({ port: 0, dir, ...withQuickHashes({ settings }) })
const url = await service.listen()
process.send?.({ url: plant === '' ? url : await plantedFront(url, plant) })

/** Both ends of pipes to other processes are sockets too; clients are those beyond what was there at first. */
function socketCount(): number {
  let count = 0
  for (const descriptor of readdirSync('/proc/self/fd')) {
    try {
      if (readlinkSync(`/proc/self/fd/${descriptor}`).startsWith('socket:')) count++
    } catch {
      // Closed meanwhile.
    }
  }
  return count
}

process.on('message', async () => {
  // What finalizers let go is free after the next collection.
  for (let round = 0; round < 3; round++) {
    globalThis.gc?.()
    await pause(50)
  }
  const { heapUsed, external } = process.memoryUsage()
  process.send?.({ heldBytes: heapUsed + external, sockets: socketCount() })
})
process.on('disconnect', async () => {
  await service.close()
  process.exit()
})
