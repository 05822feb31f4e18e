import { availableParallelism } from 'node:os'
import { expect, it } from 'vitest'
import { nodeCount, nodesFor } from '../../src/config/node-count.ts'
import { problemWith } from '../../src/config/setting-rules.ts'

function countFor(value: string): number {
  return nodeCount({ text: () => value, integer: () => Number(value) })
}

it('is the number that the setting has', () => {
  expect(countFor('1')).toBe(1)
  expect(countFor('12')).toBe(12)
})

it('is one less than there are cores for auto, at least one and at most eight', () => {
  expect([1, 2, 3, 4, 8, 9, 10, 128].map(nodesFor)).toEqual([1, 1, 2, 3, 7, 8, 8, 8])
  expect(countFor('auto')).toBe(nodesFor(availableParallelism()))
})

it('is nothing else', () => {
  for (const value of ['1', '64', 'auto']) expect(problemWith('service', 'nodes', value)).toBeUndefined()
  for (const value of ['', '0', '65', '-1', '1.5', 'Auto', 'max']) {
    expect(problemWith('service', 'nodes', value)).toBe(
      'The setting service/nodes must be a number from 1 to 64, or auto.',
    )
  }
})
