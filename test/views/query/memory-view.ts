/** A view over rows that a test chooses, in a store of its own: what queries read from, without anything that maps. */
import assert from 'node:assert/strict'
import { CollationEncoder } from '../../../src/encoding/collation/collation-key.ts'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import { RankTree, SALT_BYTES } from '../../../src/storage/rank-tree/rank-tree.ts'
import type { Put, StorageEngine } from '../../../src/storage/store.ts'
import { escapeId, nodePrefix, ROW_PREFIX_BYTES, rowKey, rowPrefix } from '../../../src/views/layout/index-layout.ts'
import type { OpenView } from '../../../src/views/reading/open-index.ts'
import type { Reduction } from '../../../src/views/reductions/reduction.ts'
import { ViewReducer } from '../../../src/views/reductions/view-reducer.ts'
import { compareRawValues } from '../../encoding/naive-collation.ts'
import { encodeRow } from '../encoded-row.ts'
import type { NaiveRow } from './naive-query.ts'

export interface MemoryViewOptions {
  readonly collation?: 'raw' | 'unicode'
  readonly reduction?: Reduction
  readonly engine?: StorageEngine
}

/** Not the first of the index, so that what belongs to others must be left alone. */
const NUMBER = 1

export async function memoryView(
  rows: readonly NaiveRow[],
  { collation = 'unicode', reduction, engine = new MemoryEngine() }: MemoryViewOptions = {},
): Promise<OpenView> {
  const reducer = reduction && new ViewReducer([reduction])
  const ranks = new RankTree({
    rowPrefix: rowPrefix(NUMBER),
    nodePrefix: nodePrefix(NUMBER),
    salt: Buffer.alloc(SALT_BYTES, 7),
    ...(reducer && { reducer }),
  })
  const store = await engine.create('index')
  const neighbours = [0, 2].map((view): Put => [rowKey(view, Buffer.of(1), Buffer.from('x'), 0), Buffer.from('other')])
  await store.commit({ puts: [...neighbours, ...storedRows(rows, collation)] })
  const snapshot = store.snapshot()
  for await (const puts of ranks.rebuild(snapshot)) await store.commit({ puts })
  snapshot.release()
  return {
    number: NUMBER,
    collation,
    reduce: reducer?.reduction(0),
    lastChange: 0,
    lastPurge: 0,
    snapshot: store.snapshot(),
    ranks,
  }
}

function storedRows(rows: readonly NaiveRow[], collation: 'raw' | 'unicode'): Put[] {
  const encoder = new CollationEncoder(collation)
  const numbers = new Map<string, number>()
  return rows
    .toSorted((a, b) => compareRawValues(a.value, b.value))
    .map(({ id, key, value }) => {
      const sortKey = encoder.encode(key)
      const place = `${sortKey.toString('hex')} ${id}`
      const number = numbers.get(place) ?? 0
      numbers.set(place, number + 1)
      const stored = rowKey(NUMBER, sortKey, escapeId(Buffer.from(id)), number)
      assert(stored.length > ROW_PREFIX_BYTES)
      const [idText, keyText, valueText] = [id, key, value].map((part) => Buffer.from(JSON.stringify(part)))
      assert(idText && keyText && valueText)
      return [stored, encodeRow({ id: idText, key: keyText, value: valueText, exact: encoder.exact })]
    })
}
