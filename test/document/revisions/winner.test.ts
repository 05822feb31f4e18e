import { describe, expect, it } from 'vitest'
import { conflicts, deletedConflicts, leavesBestFirst, winner } from '../../../src/document/revisions/winner.ts'
import { grow, hexHash, pathOf, type Sent } from '../forest.ts'

describe('the winner', () => {
  it('is live rather than deleted, whatever the generation', () => {
    expect(winningRevision(leaf('1-a', 1), leaf('5-a', -2))).toBe('1-a')
  })

  it('is of the higher generation', () => {
    expect(winningRevision(leaf('9-z', 1), leaf('10-a', 2))).toBe('10-a')
  })

  it('has the higher hash', () => {
    expect(winningRevision(leaf('1-b', 1), leaf('1-a', 2))).toBe('1-b')
    expect(winningRevision(leaf(`1-${'9'.repeat(32)}`, 1), leaf(`1-${'a'.repeat(32)}`, 2))).toBe(`1-${'a'.repeat(32)}`)
  })

  it('compares hashes by their bytes', () => {
    // 32 digits stand for 16 bytes of 0x30, which is the text '0', sixteen times.
    expect(winningRevision(leaf(`1-${'30'.repeat(16)}`, 1), leaf(`1-${'0'.repeat(17)}`, 2))).toBe(`1-${'0'.repeat(17)}`)
    expect(winningRevision(leaf(`1-${'7a'.repeat(16)}`, 1), leaf('1-y', 2))).toBe(`1-${'7a'.repeat(16)}`)
    // Beyond the basic plane UTF-16 has another order than UTF-8.
    expect(winningRevision(leaf('1-\uffee', 1), leaf('1-😀', 2))).toBe('1-😀')
  })

  it('is the best tombstone when all are deleted', () => {
    expect(winningRevision(leaf('1-b', -1), leaf('2-a', -2))).toBe('2-a')
  })
})

describe('the losers', () => {
  const tree = grow([leaf('1-a', 1), leaf('2-b', 2), leaf('2-c', 3), leaf('7-d', -4), leaf(`3-${hexHash(1)}`, -5)])

  it('are listed best first', () => {
    expect(leavesBestFirst(tree).map((node) => node.body)).toEqual([3, 2, 1, 4, 5])
  })

  it('are conflicts when live, deleted conflicts when not', () => {
    expect(conflicts(tree)).toEqual(['2-b', '1-a'])
    expect(deletedConflicts(tree)).toEqual(['7-d', `3-${hexHash(1)}`])
  })
})

function leaf(revision: string, body: number): Sent {
  return { path: pathOf(revision), body }
}

function winningRevision(...leaves: Sent[]): string {
  const revision = winner(grow(leaves)).revision
  expect(winner(grow(leaves.toReversed())).revision).toBe(revision)
  return revision
}
