/**
 * Loaded before a server that must be found out: it has one bug, named by the environment. Each stands for a kind of mistake
 * that the tests of faults look for.
 */
import { LmdbEngine } from '../../src/storage/lmdb/lmdb-engine.ts'
import { LmdbStore } from '../../src/storage/lmdb/lmdb-store.ts'
import { OpenFiles } from '../../src/storage/lmdb/open-files.ts'

const plants: Record<string, () => void> = {
  /** A commit that fails is taken for one that is on disk. */
  'a lost failure': () => {
    const { commit } = LmdbStore.prototype
    LmdbStore.prototype.commit = async function (changes) {
      return commit.call(this, changes).catch(() => ({ outcome: 'committed', version: 1 }))
    }
  },
  /** A file that cannot be opened for want of descriptors gives an error without a cause. */
  'a lost cause': () => {
    const { acquire } = OpenFiles.prototype
    const { create } = LmdbEngine.prototype
    OpenFiles.prototype.acquire = function (path) {
      try {
        return acquire.call(this, path)
      } catch {
        throw new Error('planted')
      }
    }
    LmdbEngine.prototype.create = async function (name, rows) {
      return create.call(this, name, rows).catch(() => {
        throw new Error('planted')
      })
    }
  },
  /** A database whose file cannot be removed counts as deleted. */
  'a lost refusal': () => {
    const { drop } = LmdbEngine.prototype
    LmdbEngine.prototype.drop = async function (name) {
      return drop.call(this, name).catch(() => {})
    }
  },
}

plants[process.env.SETTLE_TEST_PLANT ?? '']?.()
