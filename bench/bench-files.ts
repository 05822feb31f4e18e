/** The results of a whole run as files that can be looked at: a table in Markdown, and a chart of it as SVG. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Figures, median, ratio, type WorkloadResult } from './comparison.ts'
import type { MachineFacts } from './machine.ts'
import { count } from './report.ts'

export function writeBenchFiles(folder: string, results: readonly WorkloadResult[], facts: MachineFacts): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'README.md'), tableText(results, facts))
  writeFileSync(join(folder, 'chart.svg'), chartText(results))
}

/** Rates of all servers, and how much faster this one is; then what share of each limit it reaches. */
export function tableText(results: readonly WorkloadResult[], facts: MachineFacts): string {
  const names = results[0]?.servers.map(({ name }) => name) ?? []
  const [own = '', ...peers] = names
  const servers = results.map(({ workload, servers }) => [
    workload.title,
    ...servers.slice(1).map((peer) => timesText(ratio(servers[0]!, peer))),
    ...servers.map(rateText),
    workload.unit,
  ])
  const limits = results.flatMap(({ workload, servers, limits }) =>
    limits.map((limit) => {
      const reached = ratio(servers[0]!, limit)
      const share = reached === undefined ? '-' : `${(reached * 100).toFixed(reached < 0.1 ? 1 : 0)} %`
      return [workload.title, limit.name, share, rateText(servers[0]!), rateText(limit), workload.unit]
    }),
  )
  const worst = results
    .flatMap(({ workload, servers, limits }) =>
      limits.flatMap((limit) => {
        const reached = ratio(servers[0]!, limit)
        return reached === undefined || !Number.isFinite(reached) ? [] : [{ title: workload.title, limit, reached }]
      }),
    )
    .toSorted((a, b) => a.reached - b.reached)
    .slice(0, 3)
  return [
    '# Figures',
    '',
    'Written by `npm run bench`. Rates are medians of rounds in which the servers took turns; compare ratios, not rates of other machines.',
    '',
    '![ratios](chart.svg)',
    '',
    ...table(['', ...peers.map((peer) => `${own} / ${peer}`), ...names, 'per second'], servers),
    '',
    ...(limits.length > 0 ? LIMITS_TEXT : []),
    ...(limits.length > 0 ? table(['', 'limit', 'reached', own, 'the limit', 'per second'], limits) : []),
    ...(worst.length > 0 ? ['', 'Furthest from a limit:', ''] : []),
    ...worst.map(({ title, limit, reached }) => `- ${title}: ${(reached * 100).toFixed(1)} % of ${limit.name}`),
    '',
    ...facts.map((fact) => `- ${fact}`),
    '',
  ].join('\n')
}

const LIMITS_TEXT = [
  'What a part of the work takes with nothing around it, on the same machine in the same rounds: the bytes of the reply through a bare socket or a bare `node:http`, the documents through a bare LMDB file, the map function in a bare isolate. No server does less than all of them.',
  '',
]

const BAR_PX = 16
const ROW_PX = 24
const LABELS_PX = 500
const CHART_PX = 480
/** From a hundredth to a thousand times. */
const LOWEST = 0.01
const HIGHEST = 1000

/** Bars of each workload: how many times as fast as each peer, and what share of each limit, on a logarithmic scale. */
export function chartText(results: readonly WorkloadResult[]): string {
  const rows = results.flatMap(({ workload, servers, limits }) => [
    ...bars(workload.title, servers[0]!, servers.slice(1), 'peer'),
    ...bars(workload.title, servers[0]!, limits, 'limit'),
  ])
  const height = rows.length * ROW_PX + 40
  const width = LABELS_PX + CHART_PX + 80
  const lines = [0.01, 0.1, 1, 10, 100, 1000].map((value) => {
    const x = LABELS_PX + placeOf(value)
    return `<line x1="${x}" x2="${x}" y1="20" y2="${height - 20}" class="grid"/><text x="${x}" y="14" class="scale">${value}×</text>`
  })
  const drawn = rows.map(({ title, value, of, kind }, i) => {
    const label = title === rows[i - 1]?.title ? '' : title
    const y = 26 + i * ROW_PX
    const [from, to] = [placeOf(1), placeOf(value)].sort((a, b) => a - b)
    const x = LABELS_PX + (from ?? 0)
    const length = Math.max(1, (to ?? 0) - (from ?? 0))
    return (
      `<text x="${LABELS_PX - 8}" y="${y + 12}" class="label">${escaped(label)}</text>` +
      `<rect x="${x}" y="${y}" width="${length.toFixed(1)}" height="${BAR_PX}" class="${kind}"/>` +
      `<text x="${(x + length + 4).toFixed(1)}" y="${y + 12}" class="value">${timesText(value)} ${escaped(of)}</text>`
    )
  })
  const style =
    'text{font:12px sans-serif;fill:#444}.label{text-anchor:end}.scale{text-anchor:middle}.grid{stroke:#ccc}.peer{fill:#2a7}.limit{fill:#78b}'
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width + 160} ${height}" role="img" aria-label="Ratios to a peer and to limits"><style>${style}</style>\n<rect width="100%" height="100%" fill="#fff"/>\n${[...lines, ...drawn].join('\n')}\n</svg>\n`
}

function bars(title: string, own: Figures, others: readonly Figures[], kind: 'peer' | 'limit') {
  return others.flatMap((other) => {
    const value = ratio(own, other)
    return value === undefined || !Number.isFinite(value) ? [] : [{ title, value, of: other.name, kind }]
  })
}

function placeOf(value: number): number {
  const within = Math.min(HIGHEST, Math.max(LOWEST, value))
  return (CHART_PX * Math.log(within / LOWEST)) / Math.log(HIGHEST / LOWEST)
}

function timesText(value: number | undefined): string {
  return value === undefined || !Number.isFinite(value) ? '-' : `${value < 10 ? value.toFixed(2) : value.toFixed(0)}×`
}

function rateText({ rounds, failure }: Figures): string {
  return failure === undefined && rounds.length > 0 ? count(median(rounds)) : 'failed'
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)]
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
