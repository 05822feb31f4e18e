import { expect, it } from 'vitest'
import { Metrics } from '../../src/runtime/metrics.ts'

it('adds what nodes that are gone have counted, by label, however many they were', () => {
  const metrics = new Metrics()
  metrics.total('settle_test_total', 'a test', () => [[{ kind: 'a' }, 1]])
  for (let i = 0; i < 100; i++) {
    const node = {}
    const readings: [Record<string, string>, number][] = [
      [{ kind: 'a' }, 2],
      [{ kind: 'b' }, i],
    ]
    metrics.merge(node, { counters: [], histograms: [], read: [{ name: 'settle_test_total', readings }] })
    metrics.forget(node)
  }
  const lines = [...metrics.lines()].filter((line) => !line.startsWith('#'))
  expect(lines).toEqual(['settle_test_total{kind="a"} 201', 'settle_test_total{kind="b"} 4950'])
})
