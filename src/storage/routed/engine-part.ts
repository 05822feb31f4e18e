/** One of several engines that are used as one, and the names that it has. */
import { EngineUnavailableError } from '../storage-error.ts'
import type { StorageEngine } from '../store.ts'

export interface EnginePart {
  /** For people, without secrets. */
  readonly shown: string
  readonly engine: StorageEngine
  /** Whether its names are known: until then it may have any. */
  readonly isListed: boolean
}

/** An engine that does not answer within this time is taken for one that cannot be reached. */
const LIST_TIMEOUT_MS = 2000

/** The names of an engine; those that are known where it cannot be reached. Throws where none are. */
export async function namesOf({ engine, isListed }: EnginePart): Promise<readonly string[]> {
  if (!isListed || !engine.knownNames) return engine.list()
  const { promise: late, resolve } = Promise.withResolvers<readonly string[]>()
  const timer = setTimeout(() => resolve(engine.knownNames ?? []), LIST_TIMEOUT_MS)
  try {
    return await Promise.race([engine.list(), late])
  } catch (error) {
    if (error instanceof EngineUnavailableError) return engine.knownNames
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** All names, each once, in byte order. */
export function mergedNames(lists: readonly (readonly string[])[]): string[] {
  return [...new Set(lists.flat())].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
}
