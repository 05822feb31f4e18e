/**
 * Child processes inherit the file descriptors of LMDB, with which they could write to databases. Descriptors of this
 * process are close-on-exec, inherited ones are not: that is how they are recognized. Only Linux needs this.
 */
import { closeSync, readdirSync, readFileSync } from 'node:fs'

const CLOSE_ON_EXEC = 0o2000000
const STANDARD_STREAMS = 3

export function closeInheritedDescriptors(): void {
  if (process.platform !== 'linux') return
  for (const descriptor of readdirSync('/proc/self/fd').map(Number)) {
    if (descriptor >= STANDARD_STREAMS && isInherited(descriptor)) closeSync(descriptor)
  }
}

function isInherited(descriptor: number): boolean {
  const information = informationOf(descriptor)
  const flags = /^flags:\s*([0-7]+)/m.exec(information)?.[1]
  return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0
}

/** Nothing for the descriptor that listed the others: it is closed by now. */
function informationOf(descriptor: number): string {
  try {
    return readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return ''
    throw error
  }
}
