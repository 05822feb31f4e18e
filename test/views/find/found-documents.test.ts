import { describe, expect, it } from 'vitest'
import { documentKey } from '../../../src/database/layout/keys.ts'
import { parseSelector } from '../../../src/selectors/parse-selector.ts'
import { conditionMatcher } from '../../../src/selectors/selector-matcher.ts'
import { FoundDocuments, type ReadingLimits } from '../../../src/views/find/found-documents.ts'
import { put } from '../../database/test-database.ts'
import { lmdbViews } from '../test-views.ts'

const IDS = ['a', 'b', 'c', 'd', 'e']
const KEYS = IDS.map(documentKey)

/** A reader of large documents, each of which is matched in a thread. */
async function largeDocuments(limits: ReadingLimits) {
  const { databases } = await lmdbViews()
  await databases.create('db')
  const database = await databases.get('db')
  const filler = 'x'.repeat(300_000)
  await database.write(IDS.map((id, n) => put(id, { n, filler })))
  const view = database.lastingView()
  const condition = parseSelector({ n: { $gte: 1 } })
  const wanted = { condition, matcher: conditionMatcher(condition), fields: undefined, conflicts: false }
  return { view, documents: new FoundDocuments(view, wanted, limits) }
}

describe('large documents that a query reads', () => {
  it('are given in portions that hold the snapshot for a limited time', async () => {
    const { view, documents } = await largeDocuments({ longestMs: 0 })
    const found: boolean[] = []
    while (found.length < KEYS.length) {
      const texts = await documents.ofKeys(KEYS.slice(found.length))
      expect(texts.rows).toBeGreaterThan(0)
      for (let row = 0; row < texts.rows; row++) found.push(texts.isFound(row))
    }
    view.release()
    expect(found).toEqual([false, true, true, true, true])
    expect(documents.examined).toBe(IDS.length)
  })

  it('are matched no more when the client is gone', async () => {
    const client = { signal: AbortSignal.abort(new Error('gone')) }
    const { view, documents } = await largeDocuments({ client })
    await expect(documents.ofKeys(KEYS)).rejects.toThrow('gone')
    view.release()
    expect(documents.examined).toBe(1)
  })
})
