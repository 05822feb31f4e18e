/** How many processes answer requests, by `service/nodes`: a number, or `auto`, which goes by the machine. */
import { availableParallelism } from 'node:os'
import { AUTO } from '../config/setting-rules.ts'
import { availableMemory } from '../runtime/memory-budget.ts'

/** Beyond that, nodes cost memory, and the primary has all writes anyway. */
const MOST_BY_ITSELF = 8
/** A container may have many cores and little memory: several times what a node takes, so that most is left to files. */
const BYTES_FOR_EACH = 512 * 1024 * 1024

interface Settings {
  text(section: string, key: string): string
  integer(section: string, key: string): number
}

export function nodeCount(settings: Settings): number {
  const isAuto = settings.text('service', 'nodes') === AUTO
  return isAuto ? nodesFor(availableParallelism(), availableMemory()) : settings.integer('service', 'nodes')
}

/** One core is left to index processes, functions and the system. */
export function nodesFor(cores: number, memoryBytes: number): number {
  return Math.max(1, Math.min(MOST_BY_ITSELF, cores - 1, Math.floor(memoryBytes / BYTES_FOR_EACH)))
}
