/**
 * `npm run bench:mixed`: everything at once for half an hour on data that stays the same size. Memory, descriptors, files
 * and latencies of the second half must be those of the first. Ends with 1 where one of them has grown.
 */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { temporaryFolder } from './child-process.ts'
import { median, percentile } from './comparison.ts'
import { machineFacts } from './machine.ts'
import { MixedClients } from './mixed-clients.ts'
import { descriptorsOf, memoryUse, processesOfTree } from './process-use.ts'
import { count, printTable } from './report.ts'
import { type StartedServer, startSettle } from './servers.ts'

interface Sample {
  readonly ownMegabytes: number
  readonly childrenMegabytes: number
  readonly descriptors: number
  readonly fileMegabytes: number
  readonly readMs: number
  readonly slowReadMs: number
  readonly writeMs: number
  readonly slowWriteMs: number
}

interface Kind {
  readonly title: string
  readonly of: (sample: Sample) => number
  /** What the second half may have more than the first: a share, and as much that small figures do not matter. */
  readonly share: number
  readonly slack: number
}

const KINDS: readonly Kind[] = [
  { title: 'private memory, MB', of: (each) => each.ownMegabytes, share: 0.1, slack: 10 },
  { title: 'of its processes, MB', of: (each) => each.childrenMegabytes, share: 0.15, slack: 30 },
  { title: 'descriptors', of: (each) => each.descriptors, share: 0.05, slack: 6 },
  { title: 'files, MB', of: (each) => each.fileMegabytes, share: 0.2, slack: 10 },
  { title: 'GET p50, ms', of: (each) => each.readMs, share: 0.3, slack: 1 },
  { title: 'GET p99, ms', of: (each) => each.slowReadMs, share: 0.5, slack: 10 },
  { title: 'PUT p50, ms', of: (each) => each.writeMs, share: 0.3, slack: 2 },
  { title: 'PUT p99, ms', of: (each) => each.slowWriteMs, share: 0.5, slack: 20 },
]

const { values: flags } = parseArgs({ options: { minutes: { type: 'string', default: '30' } } })
const DURATION_MS = Number(flags.minutes) * 60_000
/** Each is one row; the first is for warming up. */
const PERIODS = 7
const SAMPLES_PER_PERIOD = 12

async function main(): Promise<void> {
  const facts = machineFacts()
  // So often that what is compacted shows in the figures of half an hour.
  process.env.SETTLE_COMPACTION_DAEMON__CHECK_INTERVAL = '30'
  const dir = join(temporaryFolder(), 'data')
  const settle = await startSettle({ dir })
  const clients = await MixedClients.start(settle.url)
  const periods: Sample[][] = []
  for (let period = 0; period < PERIODS; period++) {
    periods.push(await watch(settle, dir, clients))
    process.stderr.write(`${period + 1} of ${PERIODS}: ${count(clients.requests)} requests\n`)
  }
  await clients.stop()
  await settle.process.stop()
  const isSteady = print(periods, clients.requests)
  for (const fact of facts) console.log(fact)
  if (!isSteady) process.exitCode = 1
}

async function watch(settle: StartedServer, dir: string, clients: MixedClients): Promise<Sample[]> {
  const samples: Sample[] = []
  for (let i = 0; i < SAMPLES_PER_PERIOD; i++) {
    await clients.work(DURATION_MS / PERIODS / SAMPLES_PER_PERIOD)
    const [own = 0, ...children] = processesOfTree(settle.process.pid).map(ownMegabytes)
    const { readsMs, writesMs } = clients.takeLatencies()
    samples.push({
      ownMegabytes: own,
      childrenMegabytes: children.reduce((sum, each) => sum + each, 0),
      descriptors: descriptorsOf(settle.process.pid),
      fileMegabytes: bytesIn(dir) / 1e6,
      readMs: percentile(readsMs, 0.5),
      slowReadMs: percentile(readsMs, 0.99),
      writeMs: percentile(writesMs, 0.5),
      slowWriteMs: percentile(writesMs, 0.99),
    })
  }
  return samples
}

/** Whether nothing has grown. */
function print(periods: readonly Sample[][], requests: number): boolean {
  const [, ...steady] = periods
  const half = steady.length / 2
  let isSteady = true
  const rows = KINDS.map(({ title, of, share, slack }) => {
    const first = median(steady.slice(0, half).flat().map(of))
    const second = median(steady.slice(half).flat().map(of))
    const holds = second <= first * (1 + share) + slack
    isSteady &&= holds
    const each = periods.map((period) => figure(median(period.map(of))))
    return [title, ...each, holds ? 'steady' : 'grows']
  })
  const minutes = periods.map((_, period) => `${Math.round(((period + 1) * DURATION_MS) / PERIODS / 60_000)} min`)
  console.log(`${count(requests)} requests in ${flags.minutes} minutes; medians of each period:`)
  printTable(['', ...minutes, ''], rows)
  return isSteady
}

function figure(value: number): string {
  return value < 100 ? value.toFixed(1) : String(Math.round(value))
}

/** Zero where it has ended meanwhile. */
function ownMegabytes(pid: number): number {
  try {
    return memoryUse(pid).ownBytes / 1e6
  } catch {
    return 0
  }
}

/** Files come and go meanwhile. */
function bytesIn(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).reduce((sum, name) => {
    const found = statSync(join(folder, name), { throwIfNoEntry: false })
    return sum + (found?.isFile() ? found.blocks * 512 : 0)
  }, 0)
}

main().then(
  () => process.exit(),
  (error: unknown) => {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : error}\n`)
    process.exit(1)
  },
)
