/** How many processes answer requests, by `service/nodes`: a number, or `auto`, which goes by the machine. */
import { availableParallelism } from 'node:os'

export const AUTO = 'auto'
/** Beyond that, nodes cost memory, and the primary has all writes anyway. */
const MOST_BY_ITSELF = 8

interface Settings {
  text(section: string, key: string): string
  integer(section: string, key: string): number
}

export function nodeCount(settings: Settings): number {
  const isAuto = settings.text('service', 'nodes') === AUTO
  return isAuto ? nodesFor(availableParallelism()) : settings.integer('service', 'nodes')
}

/** One core is left to index processes, functions and the system. */
export function nodesFor(cores: number): number {
  return Math.min(MOST_BY_ITSELF, Math.max(1, cores - 1))
}
