import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Client } from '../support/client.ts'
import { scrape } from '../support/prometheus.ts'
import { startService } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')

/** Names of metrics in an expression: words before a brace, a bracket or the end, with our prefixes. */
function metricsIn(text: string): string[] {
  return [...text.matchAll(/\b(?:couchdb|settle)_[a-z_]+/g)].map(([name]) => name)
}

it('every metric of the dashboard, of the alerts and of the handbook is one that the server has', async () => {
  const client = new Client((await startService({})).url)
  const { samples, families } = await scrape(client)
  const known = new Set([...families.keys(), ...samples.map(({ name }) => name)])
  const dashboard: { panels: { targets?: { expr: string }[] }[] } = JSON.parse(
    await readFile(join(ROOT, 'examples/grafana/settle.json'), 'utf8'),
  )
  const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  expect(expressions.length).toBeGreaterThan(30)
  const alerts = (await readFile(join(ROOT, 'examples/prometheus-alerts.yaml'), 'utf8')).match(/expr: .*/g) ?? []
  expect(alerts.length).toBeGreaterThan(3)
  for (const expression of [...expressions, ...alerts]) {
    const names = metricsIn(expression)
    expect(names.length, expression).toBeGreaterThan(0)
    for (const name of names) expect(known.has(name), `${name} in ${expression}`).toBe(true)
  }
  const handbook = await readFile(join(ROOT, 'docs/operations.md'), 'utf8')
  for (const name of families.keys()) {
    const isListed = handbook.includes(name) || handbook.includes(`\`_${name.split('_').slice(3).join('_')}\``)
    expect(isListed || isShortened(handbook, name), `${name} is not in docs/operations.md`).toBe(true)
  }
})

/** A row of the table may leave out the beginning that its metrics share. */
function isShortened(handbook: string, name: string): boolean {
  const words = name.split('_')
  return words.some((_, i) => i > 0 && handbook.includes(`\`_${words.slice(i).join('_')}\``))
}
