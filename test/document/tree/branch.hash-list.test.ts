import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { HashList } from '../../../src/document/tree/branch.ts'
import { hexHash } from '../forest.ts'

describe('a list of hashes', () => {
  const hash = fc.oneof(
    fc.nat(1000).map(hexHash),
    fc.string({ minLength: 1, maxLength: 20 }).filter((text) => text.length !== 32),
  )

  it('is the same whichever way it was made', () => {
    fc.assert(
      fc.property(fc.array(hash, { minLength: 1, maxLength: 6 }), (hashes) => {
        const [first = '', ...others] = hashes
        const grown = others.reduce((list, each) => list.append(each), HashList.of([first]))
        const list = HashList.of(hashes)
        expect(grown.packed).toEqual(list.packed)
        expect([...grown.others]).toEqual([...list.others])
        for (const each of [grown, list]) expect(hashes.map((_, i) => each.at(i))).toEqual(hashes)
      }),
    )
  })
})
