import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { documentKey, idOfDocumentKey } from '../../../src/database/layout/keys.ts'

describe('the key of a document', () => {
  it('is the byte of its kind, then its id as UTF-8', () => {
    const ids = fc.oneof(fc.string({ maxLength: 100 }), fc.string({ unit: 'grapheme', maxLength: 100 }))
    fc.assert(
      fc.property(ids, (id) => {
        expect(documentKey(id)).toEqual(Buffer.from(`d${id}`))
        expect(idOfDocumentKey(documentKey(id))).toBe(id)
      }),
    )
  })
})
