/** Collects garbage in a process that was started without `--expose-gc`, and lets finalizers run. */
import { setTimeout as pause } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

export async function collectGarbage(): Promise<void> {
  collect()
  await pause(1)
}
