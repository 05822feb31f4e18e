import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readUsualRevisions } from '../../src/document/revisions-text.ts'

const HASH = 'abcdef0123456789abcdef0123456789'
const read = (text: string) => readUsualRevisions(Buffer.from(text))

describe('the usual text of revisions', () => {
  it('is read as a parser reads it', () => {
    const hash = fc.stringMatching(/^[0-9a-f]{32}$/)
    fc.assert(
      fc.property(fc.array(hash, { minLength: 1, maxLength: 20 }), fc.nat(1e12), (hashes, more) => {
        const start = hashes.length + more
        expect(read(JSON.stringify({ start, ids: hashes }))).toEqual({ start, hashes })
      }),
    )
  })

  it.each([
    '',
    '{}',
    '[]',
    `{"start":1,"ids":[]}`,
    `{"start":0,"ids":["${HASH}"]}`,
    `{"start":01,"ids":["${HASH}"]}`,
    `{"start":1,"ids":["${HASH}","${HASH}"]}`,
    `{"start":-1,"ids":["${HASH}"]}`,
    `{"start":1.5,"ids":["${HASH}"]}`,
    `{"start":1234567890123456,"ids":["${HASH}"]}`,
    `{"start":1,"ids":["${HASH.toUpperCase()}"]}`,
    `{"start":1,"ids":["${HASH.slice(1)}"]}`,
    `{"start":1,"ids":["${HASH}"],"more":1}`,
    `{"start":1,"ids":["${HASH}"]`,
    `{"start":1,"ids":["${HASH}"`,
    `{"start":2,"ids":["${HASH}",]}`,
    `{"start":2,"ids":["${HASH}" "${HASH}"]}`,
    `{"ids":["${HASH}"],"start":1}`,
  ])('is not %s', (text) => {
    expect(read(text)).toBeUndefined()
  })
})
