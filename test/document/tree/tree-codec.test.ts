import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RevisionTree } from '../../../src/document/tree/revision-tree.ts'
import { decodeTree, encodeTree } from '../../../src/document/tree/tree-codec.ts'
import { graft } from '../../../src/document/tree/tree-growth.ts'
import { arbitraryHistories, edges, grow, hexHash, pathOf } from '../forest.ts'

describe('the stored form of a tree', () => {
  it('is read back as it was', () => {
    fc.assert(
      fc.property(arbitraryHistories, (histories) => {
        const tree = grow(histories)
        const bytes = encodeTree(tree)
        expect(edges(decodeTree(bytes))).toEqual(edges(tree))
        expect(encodeTree(decodeTree(bytes))).toEqual(bytes)
      }),
    )
  })

  it('holds every number up to 2^53 - 1', () => {
    fc.assert(
      fc.property(
        fc.maxSafeInteger().filter((body) => body !== 0),
        fc.integer({ min: 1, max: 2 ** 50 }),
        (body, start) => {
          const tree = graft(undefined, { start, hashes: [hexHash(1)] }, body)
          expect(decodeTree(encodeTree(tree))).toEqual(tree)
        },
      ),
    )
  })

  it('holds hashes of any text', () => {
    const tree = graft(undefined, { start: 3, hashes: ['é'.repeat(300), hexHash(1), ''] }, 1)
    expect(edges(decodeTree(encodeTree(tree)))).toEqual(edges(tree))
  })

  it('is small: 16 bytes a revision, and little more', () => {
    const replicated = graft(
      undefined,
      { start: 1000, hashes: Array.from({ length: 1000 }, (_, index) => hexHash(index)) },
      9,
    )
    expect(encodeTree(replicated).length).toBeLessThan(16_000 + 20)
    expect(encodeTree(graft(undefined, { start: 1, hashes: [hexHash(1)] }, 1)).length).toBeLessThan(16 + 10)
  })

  it('does not read what is cut off, too long or of another format', () => {
    const bytes = encodeTree(grow([{ path: pathOf('1-a 2-b'), body: 300 }]))
    for (let size = 0; size < bytes.length; size++)
      expect(() => decodeTree(bytes.subarray(0, size))).toThrow('revision tree')
    expect(() => decodeTree(Buffer.concat([bytes, Buffer.alloc(1)]))).toThrow('damaged')
    expect(() => decodeTree(Buffer.concat([Buffer.from([3]), bytes.subarray(1)]))).toThrow('format')
  })

  it('does not read a branch that is its own ancestor', () => {
    const tree = grow([
      { path: pathOf('1-a 2-b'), body: 1 },
      { path: pathOf('1-a 2-c'), body: 2 },
    ])
    const [main, fork] = tree.branches
    expect(() => decodeTree(encodeTree(new RevisionTree([{ ...main!, parent: 1 }, fork!])))).toThrow('damaged')
    expect(() => decodeTree(encodeTree(new RevisionTree([main!, { ...fork!, parent: 1 }])))).toThrow('damaged')
    expect(() => decodeTree(encodeTree(new RevisionTree([main!, { ...fork!, parent: 7 }])))).toThrow('damaged')
  })

  it('never fails in another way on bytes that are not a tree', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (noise) => {
        try {
          decodeTree(Buffer.concat([Buffer.from([1]), noise]))
        } catch (error) {
          expect(String(error)).toMatch('The revision tree')
        }
      }),
    )
  })
})
