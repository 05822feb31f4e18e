import { basename } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  isDigest,
  isFileOf,
  nameOfStem,
  parseStoreFileName,
  stemOf,
  storePath,
} from '../../../src/storage/files/store-file.ts'
import '../../support/fixed-seed.ts'

const FILE_NAME_BYTES = 255
/** The longest ending that any file of a store has, behind the largest generation. */
const LONGEST_ENDING = `.${Number.MAX_SAFE_INTEGER}.mdb.new-lock`

/** Names of databases, many of them near the length at which the escaped name does not fit any more. */
const databaseName = fc
  .tuple(
    fc.constantFrom('a', 'z', '_'),
    fc.string({ unit: fc.constantFrom(...'az09_$()+-/'), maxLength: 12 }),
    fc.nat(999),
    fc.constantFrom('x', '/', '-', '$', ')'),
    fc.string({ unit: fc.constantFrom(...'az09_$()+-/'), maxLength: 6 }),
  )
  .map(([first, start, length, filling, end]) => (first + start).padEnd(length, filling) + end)

const anyName = fc.oneof(databaseName, fc.string({ unit: 'binary', minLength: 1, maxLength: 300 }))

function fileNameOf(name: string, generation: number): string {
  return basename(storePath('/', { stem: stemOf(name), generation }))
}

describe('the name of a file', () => {
  it('holds the store and the generation, or a digest of the name when that is long', () => {
    fc.assert(
      fc.property(anyName, fc.nat(), (name, generation) => {
        const file = parseStoreFileName(fileNameOf(name, generation))
        expect(file).toEqual({ stem: stemOf(name), generation })
        expect(nameOfStem(stemOf(name))).toBe(isDigest(stemOf(name)) ? undefined : name)
      }),
      { numRuns: 2000 },
    )
  })

  it('is that of one store only, also where case is ignored', () => {
    fc.assert(
      fc.property(fc.uniqueArray(anyName, { minLength: 2, maxLength: 50 }), (names) => {
        expect(new Set(names.map((name) => stemOf(name).toLowerCase())).size).toBe(names.length)
      }),
      { numRuns: 300 },
    )
  })

  it.each([
    ['a/', 'a+'],
    ['a(', 'a)'],
    ['a$', 'a-'],
    ['_a', 'a_'],
    ['a', 'A'],
    ['a%2F', 'a/'],
    ['a%2f', 'a%2F'],
    ['~', '%7E'],
    ['a.1.mdb', 'a'],
    ['x'.repeat(220), 'x'.repeat(221)],
    [`${'x'.repeat(400)}a`, `${'x'.repeat(400)}b`],
    [stemOf('x'.repeat(400)), 'x'.repeat(400)],
  ])('differs for %j and %j', (one, other) => {
    expect(stemOf(one).toLowerCase()).not.toBe(stemOf(other).toLowerCase())
    expect(isFileOf(`/folder/${fileNameOf(one, 7)}`, one)).toBe(true)
    expect(isFileOf(`/folder/${fileNameOf(one, 7)}`, other)).toBe(false)
  })

  it('fits into what file systems allow, with all that may follow, in characters that all of them have', () => {
    fc.assert(
      fc.property(anyName, (name) => {
        const stem = stemOf(name)
        expect(stem).toMatch(/^[a-z0-9_$()+%A-F~-]+$/)
        expect(stem.length + LONGEST_ENDING.length).toBeLessThanOrEqual(FILE_NAME_BYTES)
      }),
      { numRuns: 1000 },
    )
  })
})
