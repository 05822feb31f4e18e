/** A store whose commits are acknowledged without a flush: what the power-cut test must notice. */
import { LmdbEnvironment } from '../../../src/storage/lmdb/lmdb-environment.ts'
import { LmdbStore } from '../../../src/storage/lmdb/lmdb-store.ts'
import { OpenFiles } from '../../../src/storage/lmdb/open-files.ts'
import type { Store } from '../../../src/storage/store.ts'

export function unflushedStore(name: string, path: string): Store {
  const refuse = () => {
    throw new Error('A store without flushes cannot be compacted.')
  }
  return new LmdbStore(name, path, { open: new UnflushedFiles(1), nextPath: refuse, discard: refuse })
}

class UnflushedFiles extends OpenFiles {
  readonly #environments = new Map<string, LmdbEnvironment>()

  override acquire(path: string): LmdbEnvironment {
    const environment = this.#environments.get(path) ?? new LmdbEnvironment(path, { flush: false })
    this.#environments.set(path, environment)
    return environment
  }

  override release(): void {}
}
