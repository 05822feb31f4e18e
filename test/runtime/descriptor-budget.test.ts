import { expect, it } from 'vitest'
import { descriptorBudget, descriptorLimit } from '../../src/runtime/descriptor-budget.ts'

const WISHES = { connections: 20_000, idleFiles: 500 }

it('leaves the settings alone where the system allows enough', () => {
  expect(descriptorBudget(1_048_576, WISHES)).toEqual(WISHES)
  expect(descriptorBudget(Number.POSITIVE_INFINITY, WISHES)).toEqual(WISHES)
})

it.each([16, 64, 256, 1024, 4096, 20_000])('shares %s descriptors between connections and files', (limit) => {
  const { connections, idleFiles } = descriptorBudget(limit, WISHES)
  expect(connections).toBeGreaterThanOrEqual(limit / 2)
  expect(idleFiles).toBeGreaterThanOrEqual(1)
  expect(connections + idleFiles * 7).toBeLessThan(limit)
})

it('knows the limit of this process', () => {
  expect(descriptorLimit()).toBeGreaterThan(10)
})
