/** What one must know of the machine to read the figures. */
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import { cpus, loadavg, release, totalmem, type } from 'node:os'
import { join } from 'node:path'
import { temporaryFolder } from './child-process.ts'
import { median } from './comparison.ts'

/** Lines for people. */
export type MachineFacts = readonly string[]

/** To be called before the load: it also says how busy the machine was with other work. */
export function machineFacts(): MachineFacts {
  const processors = cpus()
  const memoryGb = Math.round(totalmem() / 2 ** 30)
  return [
    `${processors.length} cores (${processors[0]?.model.trim() ?? 'unknown'}), ${memoryGb} GB of memory, ${type()} ${release()}`,
    `Node.js ${process.version}; load of the machine before the run: ${loadavg()[0]!.toFixed(2)}`,
    `a flush of 4 KB to disk in the temporary folder takes ${flushMs().toFixed(2)} ms`,
  ]
}

function flushMs(): number {
  const file = openSync(join(temporaryFolder(), 'flush'), 'w')
  const block = Buffer.alloc(4096, 1)
  const times = Array.from({ length: 25 }, () => {
    const start = performance.now()
    writeSync(file, block)
    fdatasyncSync(file)
    return performance.now() - start
  })
  closeSync(file)
  return median(times)
}
