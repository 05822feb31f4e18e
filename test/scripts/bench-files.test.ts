import { expect, it } from 'vitest'
import { chartText, tableText } from '../../bench/bench-files.ts'
import type { Figures, WorkloadResult } from '../../bench/comparison.ts'
import { workloads } from '../../bench/workloads.ts'

const figures = (name: string, ...rounds: number[]): Figures => ({ name, rounds, processorUs: [], latenciesMs: [] })

function results(): WorkloadResult[] {
  const [get, put] = workloads
  if (!get || !put) throw new Error('There are workloads.')
  return [
    {
      workload: get,
      servers: [figures('settle', 900, 1000, 1100), figures('peer', 90, 100, 110)],
      limits: [figures('bare <a&b>', 2000, 2000, 2000), figures('bare lmdb', 20_000, 20_000, 20_000)],
      generatorShare: 0,
    },
    {
      workload: put,
      servers: [figures('settle', 10), { ...figures('peer'), failure: 'gone' }],
      limits: [],
      generatorShare: 0,
    },
  ]
}

it('the table of a bench has rates, ratios to the peer and shares of limits', () => {
  const text = tableText(results(), ['two cores'])
  expect(text).toContain('| 10× | 1,000 | 100 |')
  expect(text).toContain('| bare <a&b> | 50 % | 1,000 | 2,000 |')
  expect(text).toContain('| bare lmdb | 5.0 % | 1,000 | 20,000 |')
  expect(text).toContain('% of bare lmdb')
  expect(text).toContain('| - | 10 | failed |')
  expect(text).toContain('- two cores')
})

it('its chart has a bar for each ratio, and names each workload once', () => {
  const text = chartText(results())
  expect(text.match(/<rect [^>]*class="(peer|limit)"/g)).toHaveLength(3)
  expect(text.match(/GET a document/g)).toHaveLength(1)
  expect(text).toContain('10× peer')
  expect(text).toContain('0.50× bare &lt;a&amp;b>')
  expect(text).not.toContain('NaN')
})
