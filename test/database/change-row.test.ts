import fc from 'fast-check'
import { expect, it } from 'vitest'
import { changeTexts, decodeChange, encodeChange } from '../../src/database/change-row.ts'
import { parseRevision } from '../../src/document/revision-id.ts'

const id = fc.oneof(
  fc.string({ unit: 'grapheme', minLength: 1 }),
  fc.constantFrom('a"', '\\', '\\"', '","changes":[{"rev":"', 'a\0b', '_design/x', '\u2028'),
)
const revision = fc
  .tuple(fc.integer({ min: 1, max: 9999 }), fc.stringMatching(/^[0-9a-f]{32}$/))
  .map(([generation, hash]) => parseRevision(`${generation}-${hash}`))

it('is read in slices as it is read whole', () => {
  fc.assert(
    fc.property(
      id,
      fc.array(revision, { minLength: 1, maxLength: 3 }),
      fc.boolean(),
      fc.nat({ max: 2 ** 40 }),
      fc.integer({ min: 1, max: 2 ** 40 }),
      (name, leaves, deleted, body, sequence) => {
        const stored = encodeChange(sequence, { id: name, leaves, deleted, body })
        const whole = decodeChange(stored)
        const texts = changeTexts(stored)
        expect(JSON.parse(texts.id.toString())).toBe(whole.id)
        expect(JSON.parse(texts.winner.toString())).toBe(leaves[0])
        if (texts.isPlain) expect(texts.id.toString()).toBe(`"${whole.id}"`)
        expect(texts).toMatchObject({ deleted, body, hasOtherLeaves: leaves.length > 1 })
      },
    ),
  )
})
