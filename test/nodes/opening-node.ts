/**
 * A process that is connected to a primary as a secondary is, and does nothing but open files. Run: node opening-node.ts <folder
 * of the nodes> <mode>. In the mode `churn` it opens, reads and closes all files in turn, and writes a line for each opening,
 * and one for each commit that LMDB has forgotten by that.
 * In the mode `hold:<kind>` it asks to open the first file of that kind, writes a line, and waits for a line before it opens it.
 */
import { readSync, writeSync } from 'node:fs'
import type { StoreKind } from '../../src/nodes/node-message.ts'
import { SecondaryNode } from '../../src/nodes/secondary-node.ts'
import { Metrics } from '../../src/runtime/metrics.ts'
import { FollowedEngine } from '../../src/storage/lmdb/followed-engine.ts'
import { LmdbEnvironment } from '../../src/storage/lmdb/lmdb-environment.ts'

const [, , folder = '', mode = ''] = process.argv

const node = new SecondaryNode({
  folder,
  begin: async ({ databases, indexes }) => {
    stores.databases.placeAll(databases.filter(({ name }) => !name.startsWith('_')))
    stores.indexes.placeAll(indexes)
    setImmediate(() => (mode === 'churn' ? churn() : hold()))
  },
  updated: () => {},
  take: async (notice) => {
    if (notice.kind === 'placed') stores[notice.stores].place(notice.place)
    if (notice.kind === 'dropped') stores[notice.stores].forget(notice.name)
  },
  lost: () => process.exit(1),
  giveUp: () => false,
  takeIncrements: () => [],
  takeMetrics: () => new Metrics().report(),
})

// Who opens a file finds out whether LMDB has forgotten a commit by that.
const restoreNewest = LmdbEnvironment.prototype.restoreNewest
LmdbEnvironment.prototype.restoreNewest = function (this: LmdbEnvironment) {
  const wasForgotten = restoreNewest.call(this)
  if (wasForgotten) writeSync(1, 'forgotten\n')
  return wasForgotten
}

const stores = { databases: followed('databases'), indexes: followed('indexes') }

function followed(kind: StoreKind): FollowedEngine {
  return new FollowedEngine({
    idleFiles: 0,
    idleStates: 1,
    askToOpen: (place, open) =>
      node.askToOpen(kind, place, () => {
        if (mode === `hold:${kind}`) {
          writeSync(1, 'holds\n')
          readSync(0, Buffer.alloc(1))
        }
        open()
      }),
  })
}

async function churn(): Promise<void> {
  for (;;) {
    for (const engine of [stores.databases, stores.indexes]) {
      for (const name of await engine.list()) {
        const store = await engine.open(name)
        const snapshot = store.snapshot()
        await snapshot.version()
        snapshot.release()
        writeSync(1, 'opened\n')
      }
    }
  }
}

async function hold(): Promise<void> {
  const engine = mode === 'hold:indexes' ? stores.indexes : stores.databases
  const [name = ''] = await engine.list()
  const snapshot = (await engine.open(name)).snapshot()
  await snapshot.version()
  writeSync(1, 'opened\n')
}
