/** What is loaded into an isolate: the functions of one design document, index or view. */

import type { Run } from '../../runtime/fair-semaphore.ts'
import type { DesignProgram, MapProgram, ReduceProgram } from '../functions.ts'
import { Request } from './frame.ts'
import type { SandboxProcess } from './sandbox-process.ts'

export interface SandboxProgram {
  /** Tells it from all others. Owners never share an isolate, though their functions be the same. */
  readonly key: string
  readonly maps?: MapProgram['maps']
  /** JSON of its other members, in no braces. */
  members(): string
}

export function mapProgram({ key, library, maps }: MapProgram, { owner }: Run): SandboxProgram {
  return { key: `map\0${owner}\0${key}`, maps, members: () => `"library":${library ?? 'null'}` }
}

export function reduceProgram({ source }: ReduceProgram, { owner }: Run): SandboxProgram {
  return { key: `reduce\0${owner}\0${source}`, members: () => `"reduce":${JSON.stringify(source)}` }
}

export function designProgram({ id, key, text }: DesignProgram, { owner }: Run): SandboxProgram {
  return { key: `design\0${owner}\0${key}`, members: () => `"id":${JSON.stringify(id)},"design":${text}` }
}

/** Isolates that a process keeps. */
const MOST_PROGRAMS = 20

let lastNumber = 0

/** The number of the program in that process; the program is sent if it is not known there. */
export function loadProgram(sandbox: SandboxProcess, program: SandboxProgram, memoryMb: number): number {
  const { programs } = sandbox
  const known = programs.get(program.key)
  // Used last, dropped last.
  programs.delete(program.key)
  const number = known ?? ++lastNumber
  programs.set(program.key, number)
  if (known !== undefined) return known
  for (const [key, oldest] of programs) {
    if (programs.size <= MOST_PROGRAMS) break
    sandbox.tell(Request.drop, oldest, [])
    programs.delete(key)
  }
  const loaded = { memoryMb, maps: program.maps, members: program.members() }
  sandbox.tell(Request.load, number, [Buffer.from(JSON.stringify(loaded))])
  return number
}
