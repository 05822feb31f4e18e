import { describe, expect, it } from 'vitest'
import { documentText } from '../../../src/database/reading/document-text.ts'
import { parseRevision } from '../../../src/document/ids.ts'
import { pathOfAncestry } from '../../../src/document/tree/branch.ts'
import { grow, pathOf } from '../../document/forest.ts'

const tree = grow([
  { path: pathOf('1-a'), body: 1 },
  { path: pathOf('1-a 2-b'), body: -2 },
  { path: pathOf('1-a 2-b 3-c 4-d'), body: 4 },
])
const ancestry = tree.ancestry(parseRevision('4-d'))

describe('the text of a document', () => {
  it('is the stored text after id and revision', () => {
    const text = documentText({ id: 'é"', revision: parseRevision('1-a'), body: Buffer.from('{"b":1.50,"1":"ü"}') })
    expect(text.toString()).toBe('{"_id":"é\\"","_rev":"1-a","b":1.50,"1":"ü"}')
  })

  it('may be id and revision alone', () => {
    const text = documentText({ id: 'x', revision: parseRevision('1-a'), body: Buffer.from('{}') })
    expect(text.toString()).toBe('{"_id":"x","_rev":"1-a"}')
  })

  it('has everything asked for, in order', () => {
    const text = documentText({
      id: 'x',
      revision: parseRevision('4-d'),
      body: Buffer.from('{"a":1}'),
      deleted: true,
      revisions: pathOfAncestry(ancestry),
      revisionsInfo: ancestry,
      conflicts: [parseRevision('2-y'), parseRevision('1-z')],
      deletedConflicts: [parseRevision('3-q')],
      localSequence: 12,
      attachments: Buffer.from('{"f":{"stub":true}}'),
    })
    expect(text.toString()).toBe(
      '{"_id":"x","_rev":"4-d","a":1,"_deleted":true,"_revisions":{"start":4,"ids":["d","c","b","a"]},' +
        '"_revs_info":[{"rev":"4-d","status":"available"},{"rev":"3-c","status":"missing"},' +
        '{"rev":"2-b","status":"deleted"},{"rev":"1-a","status":"available"}],' +
        '"_conflicts":["2-y","1-z"],"_deleted_conflicts":["3-q"],"_local_seq":12,"_attachments":{"f":{"stub":true}}}',
    )
  })

  it('leaves out what is empty', () => {
    const parts = { id: 'x', revision: parseRevision('1-a'), body: Buffer.from('{}') }
    const text = documentText({ ...parts, deleted: false, conflicts: [], deletedConflicts: [], localSequence: 0 })
    expect(text.toString()).toBe('{"_id":"x","_rev":"1-a","_local_seq":0}')
  })
})
