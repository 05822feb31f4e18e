/**
 * An index process. It keeps the load of building off the server, and a crash in native code costs only this work. It ends
 * when the channel to its server closes, together with its sandbox processes.
 */
import { flushCompileCache } from 'node:module'
import { startSpareSandbox } from '../../functions/sandbox/sandbox-start.ts'
import { closeInheritedDescriptors } from '../../runtime/processes/inherited-descriptors.ts'
import { disableReaper } from '../../runtime/processes/reaper.ts'
import type { FromProcess, ToProcess } from './index-message.ts'
import { WITH_SANDBOX } from './with-sandbox.ts'

/** When everything is loaded that is needed for the first job. */
const FLUSH_MS = 2000

// Before any file is opened: to close another descriptor of a lock file would release the locks of this process.
closeInheritedDescriptors()
// This process leads its own group. A write under way is aborted, as by a crash.
process.on('disconnect', () => process.kill(process.platform === 'win32' ? process.pid : 0, 'SIGKILL'))

// The server ends this group as a whole.
disableReaper()

// Nearly all work needs one, and starting it takes as long as the rest.
if (process.argv.includes(WITH_SANDBOX)) startSpareSandbox()

// Meanwhile messages wait in the channel.
const [{ IndexWork }, { holdTenancy }] = await Promise.all([
  import('./index-work.ts'),
  import('../../storage/leases/tenancy-lock.ts'),
])

let work: InstanceType<typeof IndexWork> | undefined

process.on('message', (message: ToProcess) => {
  if (message.type === 'begin') {
    holdTenancy(message.folder)
    // From here on the next server would wait for the end of this process.
    if (process.ppid !== message.serverPid) process.exit()
    work = new IndexWork(message.settings, send)
  } else if (message.type === 'close') void close()
  else work?.follow(message)
})

setTimeout(flushCompileCache, FLUSH_MS).unref()

function send(message: FromProcess): void {
  // The channel may be closed by now: then this process is about to end.
  process.send?.(message, undefined, undefined, () => {})
}

async function close(): Promise<void> {
  await work?.close()
  process.exit()
}
