import fc from 'fast-check'
import { expect, it } from 'vitest'
import { changePlaces, decodeChange } from '../../../src/database/layout/change-row.ts'
import { parseRevision } from '../../../src/document/ids.ts'
import { encodeChange } from '../encoded-rows.ts'

const id = fc.oneof(
  fc.string({ unit: 'grapheme', minLength: 1 }),
  fc.constantFrom('a"', '\\', '\\"', '","changes":[{"rev":"', 'a\0b', '_design/x', '\u2028'),
)
const revision = fc
  .tuple(
    fc.integer({ min: 1, max: 9999 }),
    fc.oneof(fc.stringMatching(/^[0-9a-f]{32}$/), fc.constantFrom('', 'other', '"\\', 'é\n')),
  )
  .map(([generation, hash]) => parseRevision(`${generation}-${hash}`))

it('is found in a block as it is read whole', () => {
  fc.assert(
    fc.property(
      id,
      fc.array(revision, { minLength: 1, maxLength: 3 }),
      fc.boolean(),
      fc.nat({ max: 2 ** 40 }),
      fc.integer({ min: 1, max: 2 ** 40 }),
      fc.uint8Array({ maxLength: 5 }),
      (name, leaves, deleted, body, sequence, beside) => {
        const stored = encodeChange(sequence, { id: name, leaves, deleted, body })
        const whole = decodeChange(stored)
        const block = Buffer.concat([beside, stored, beside])
        const places = changePlaces(block, beside.length, beside.length + stored.length)
        const idText = block.toString('utf8', places.idAt, places.idEnd)
        expect(whole).toEqual({ sequence, id: name.toWellFormed(), leaves, deleted, body })
        expect(JSON.parse(idText)).toBe(whole.id)
        expect(JSON.parse(block.toString('utf8', places.winnerAt, places.winnerEnd))).toBe(leaves[0])
        if (places.isPlain) expect(idText).toBe(`"${whole.id}"`)
        expect(places).toMatchObject({ deleted, body, hasOtherLeaves: leaves.length > 1 })
      },
    ),
  )
})
