import { describe, expect, it } from 'vitest'
import { generationOf, hashOf, parseRevision, type RevisionId } from '../../src/document/ids.ts'
import { EMPTY_BODY_TERM, newRevision } from '../../src/document/revisions/new-revision.ts'
import { scanDocument } from '../../src/encoding/json/json-text.ts'
import { FIRST_REVISIONS } from '../support/first-revisions.ts'

describe('reading a revision', () => {
  it('splits generation and hash at the first dash', () => {
    const revision = parseRevision('12-a-b')
    expect(generationOf(revision)).toBe(12)
    expect(hashOf(revision)).toBe('a-b')
  })

  it('lowers the case of 32 hexadecimal digits, and of no other hash', () => {
    expect(parseRevision('1-967A00DFF5E02ADD41819138ABB3284D')).toBe('1-967a00dff5e02add41819138abb3284d')
    expect(parseRevision('1-ABC')).toBe('1-ABC')
  })

  it('takes the revisions of local documents', () => {
    expect(parseRevision('0-1')).toBe('0-1')
  })

  it.each([
    '',
    '1',
    'abc',
    '-1-a',
    '-abc',
    'x-abc',
    '1.5-a',
    '+1-a',
    ' 1-a',
    `1-${'g'.repeat(32)}`,
    '1-\ud800',
    1,
    null,
    {},
    undefined,
  ])('refuses %j', (value) => {
    expect(() => parseRevision(value)).toThrow(
      expect.objectContaining({ kind: 'invalid', error: 'bad_request', reason: 'Invalid rev format' }),
    )
  })
})

describe('a new revision', () => {
  const first = revisionOf('{}')

  it.each(FIRST_REVISIONS)('of %s is %s', (text, revision) => {
    expect(revisionOf(text)).toBe(revision)
  })

  it('depends on its parent', () => {
    expect(revisionOf('{}', first)).toBe('2-7051cbe5c8faecd085a3fa619e6e6337')
    const second = revisionOf('{"val":"r1"}', revisionOf('{"val":"r0"}'))
    expect(second).toBe('2-1d8171ab3a91475cfece749291e6f897')
    expect(revisionOf('{"val":"r2"}', second)).toBe('3-3fb0a342d2ce092fdcc77856dbe8a2ef')
    const stew = '{"servings":4,"subtitle":"Delicious with freshly baked bread","title":"FishStew"}'
    expect(revisionOf(stew, revisionOf(stew))).toBe('2-2bff94179917f1dec7cd7f0209066fb8')
  })

  it('hashes the text of a parent whose hash is not hexadecimal', () => {
    expect(revisionOf('{}', parseRevision('1-abc'))).not.toBe(revisionOf('{}', parseRevision('1-ABC')))
  })

  it('of a deletion and of a re-creation', () => {
    const deletion = tombstone(first)
    expect(deletion).toBe('2-eec205a9d413992850a6e32678485900')
    expect(revisionOf('{}', deletion)).toBe('3-5570e8bbb34412db757c2df4bfa1099b')
    const other = tombstone(revisionOf('{"a":1}'))
    expect(other).toBe('2-b4e3122af5f2ab3ae9bbd74527a6aa04')
    expect(revisionOf('{"b":2}', other)).toBe('3-12d6e7a4d180f9ad2292b324630bc217')
    expect(tombstone(parseRevision('1-9c65296036141e575d32ba9c034dd3ee'))).toBe('2-056f5f44046ecafc08a2bc2b9c229e20')
  })

  it('of a tombstone with a body', () => {
    const { term } = scanDocument(Buffer.from('{"why":"x"}'))
    expect(newRevision(first, { deleted: true, term, attachments: [] })).toBe('2-8d4647bfdeafccd591eb6d350279821d')
  })

  it('depends on the attachments, in reverse order', () => {
    const hello = attachment('h.bin', '5d41402abc4b2a76b9719d911017c592')
    const world = attachment('w.bin', '7d793037a0760186574b0282f2f435e7')
    const content = { deleted: false, term: EMPTY_BODY_TERM }
    expect(newRevision(undefined, { ...content, attachments: [hello] })).toBe('1-e4d1953e9109ff8917fd2229e22521c6')
    expect(newRevision(undefined, { ...content, attachments: [hello, world] })).toBe(
      '1-20a454f0544a335bcaf28e29f073572c',
    )
    expect(newRevision(undefined, { ...content, attachments: [world, hello] })).toBe(
      '1-e723ecf8f8d551b95c4b38c9317522a3',
    )
  })
})

function revisionOf(text: string, parent?: RevisionId): RevisionId {
  return newRevision(parent, { deleted: false, term: scanDocument(Buffer.from(text)).term, attachments: [] })
}

function tombstone(parent: RevisionId): RevisionId {
  return newRevision(parent, { deleted: true, term: EMPTY_BODY_TERM, attachments: [] })
}

function attachment(name: string, md5: string) {
  return { name, contentType: 'application/octet-stream', md5: Buffer.from(md5, 'hex') }
}
