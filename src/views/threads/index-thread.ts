/**
 * A thread that works on indexes, so that the one that answers requests need not. What was compiled by another thread
 * before it is taken from where that was kept: loading all modules anew is most of its start.
 */
import { enableCompileCache } from 'node:module'
import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import type { ThreadData, ToThread } from './index-message.ts'

/** Requests come first on a busy machine. */
const NICENESS = 2

if (parentPort) {
  const port = parentPort
  const data: ThreadData = workerData
  // Of a thread only there; elsewhere the whole process would have to wait for others.
  if (process.platform === 'linux') setPriority(NICENESS)
  if (data.compiledFolder !== undefined) enableCompileCache(data.compiledFolder)
  // Loaded from here on only, so that it is found there.
  const { IndexWork } = await import('./index-work.ts')
  const work = new IndexWork(data, (message) => port.postMessage(message))
  port.on('message', (message: ToThread) => {
    if (message.type === 'close') void work.close().finally(() => port.close())
    else work.follow(message)
  })
}
