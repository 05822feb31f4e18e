import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { GatheredRows, PORTION_BYTES } from '../../src/views/building/gathered-rows.ts'
import { mergedRuns } from '../../src/views/building/merged-runs.ts'
import { RunFiles } from '../../src/views/building/run-files.ts'
import { memoryRuns } from '../../src/views/building/sorted-runs.ts'
import { readChanged } from '../../src/views/updating/changed-documents.ts'
import type { MappedCall } from '../../src/views/updating/mapped-documents.ts'
import { put, written } from '../database/test-database.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { memoryViews } from './test-views.ts'

const LARGE_BYTES = 200_000
const LIMIT_BYTES = 1_000_000

/** Documents that each emitted one row with a large value. */
function gathered(ids: readonly string[]): GatheredRows {
  const rows = new GatheredRows({ isPartitioned: false })
  for (const id of ids) rows.add(callOf(id))
  return rows
}

function callOf(id: string): MappedCall {
  const quotedId = Buffer.from(JSON.stringify(id))
  const sortKey = Buffer.from(id)
  const block = Buffer.concat([sortKey, quotedId, Buffer.alloc(LARGE_BYTES, '1')])
  const keyAt = sortKey.length
  const valueAt = keyAt + quotedId.length
  return {
    documents: [{ id: Buffer.from(id), quotedId, text: Buffer.from('{}') }],
    batch: { rows: 1, block, fields: Uint32Array.from([0, 0, 1, 0, keyAt, valueAt, block.length]) },
  }
}

const IDS = Array.from({ length: 40 }, (_, i) => `d${String((i * 7) % 40).padStart(2, '0')}`)

describe('a first build of rows with large values', () => {
  it.each([
    ['in memory', async () => memoryRuns],
    ['in files', async () => new RunFiles(join(await temporaryFolder(), 'runs'))],
  ])('hands sorted and merged rows on in portions of some bytes, with runs %s', async (_, open) => {
    const keeper = await open()
    const runs = [
      await keeper.keep('00', 0, 1, gathered(IDS.slice(0, 20))),
      await keeper.keep('00', 1, 2, gathered(IDS.slice(20))),
    ]
    let rows = 0
    let largest = 0
    for await (const { length, bounds } of mergedRuns(runs, { isPartitioned: false })) {
      rows += length
      let bytes = 0
      for (let row = 0; row < length; row++) bytes += bounds[3 * row + 2]! - bounds[3 * row]!
      largest = Math.max(largest, bytes)
    }
    expect(rows).toBe(2 * IDS.length)
    expect(largest).toBeGreaterThan(LARGE_BYTES)
    expect(largest).toBeLessThan(PORTION_BYTES + LARGE_BYTES + 1000)
  })

  it('gives the memory of its rows back when they are in a file', async () => {
    const rows = gathered(IDS)
    expect(rows.bytes).toBeGreaterThan(IDS.length * LARGE_BYTES)
    await new RunFiles(join(await temporaryFolder(), 'runs')).keep('00', 0, 1, rows)
    expect(rows.bytes).toBe(0)
  })
})

describe('changes that are read for an index', () => {
  it.each([
    { kind: 'written together', mostBytes: LIMIT_BYTES + 3 * LARGE_BYTES, idsOf: (n: number) => [`d${n}`] },
    {
      // Their bodies lie far from each other: the first ones are read before it is known how large they are.
      kind: 'scattered',
      mostBytes: LIMIT_BYTES + 16 * LARGE_BYTES,
      idsOf: (n: number) => [`d${n}`, 'other', 'other', 'other'],
    },
  ])('come in batches of some bytes, though a page of them has more: $kind', async ({ mostBytes, idsOf }) => {
    const { databases } = await memoryViews()
    await databases.create('db')
    const database = await databases.get('db')
    const text = 'x'.repeat(LARGE_BYTES)
    const revisions = new Map<string, string>()
    for (let n = 0; n < 30; n++) {
      for (const id of idsOf(n)) {
        const parent = revisions.get(id)
        const members = { n, text: id === 'other' ? '' : text }
        const [revision] = await written(database.write([put(id, members, parent ? { parent } : {})]))
        revisions.set(id, revision!)
      }
    }
    using view = database.view()
    const seen: string[] = []
    for (let since = 0, isLast = false; !isLast; ) {
      const limits = { changes: 1000, bytes: LIMIT_BYTES }
      const batch = await readChanged(view, since, { localSequence: false, includeDesign: false }, limits)
      const bytes = batch.documents.reduce((sum, { text }) => sum + (text?.length ?? 0), 0)
      expect(bytes).toBeLessThan(mostBytes)
      expect(batch.updateSequence).toBeGreaterThan(since)
      seen.push(...batch.documents.map(({ id }) => id.toString()))
      since = batch.updateSequence
      isLast = batch.isLast
    }
    expect(new Set(seen).size).toBe(seen.length)
    expect(new Set(seen)).toEqual(new Set(revisions.keys()))
  })
})
