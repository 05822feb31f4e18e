import { availableParallelism } from 'node:os'
import { expect, it } from 'vitest'
import { problemWith } from '../../src/config/setting-rules.ts'
import { nodeCount, nodesFor } from '../../src/nodes/node-count.ts'
import { availableMemory } from '../../src/runtime/memory-budget.ts'

function countFor(value: string): number {
  return nodeCount({ text: () => value, integer: () => Number(value) })
}

it('is the number that the setting has', () => {
  expect(countFor('1')).toBe(1)
  expect(countFor('12')).toBe(12)
})

it('is one less than there are cores for auto, at least one and at most eight', () => {
  const large = 2 ** 40
  expect([1, 2, 3, 4, 8, 9, 10, 128].map((cores) => nodesFor(cores, large))).toEqual([1, 1, 2, 3, 7, 8, 8, 8])
  expect(countFor('auto')).toBe(nodesFor(availableParallelism(), availableMemory()))
})

it('leaves memory to the files for auto', () => {
  const megabytes = [128, 512, 1023, 1024, 2048, 8192]
  expect(megabytes.map((size) => nodesFor(16, size * 1024 * 1024))).toEqual([1, 1, 1, 2, 4, 8])
})

it('is nothing else', () => {
  for (const value of ['1', '64', 'auto']) expect(problemWith('service', 'nodes', value)).toBeUndefined()
  for (const value of ['', '0', '65', '-1', '1.5', 'Auto', 'max']) {
    expect(problemWith('service', 'nodes', value)).toBe(
      'The setting service/nodes must be a number from 1 to 64, or auto.',
    )
  }
})
