/**
 * `npm run bench`: this server beside pouchdb-server, beside any other of the family, and beside the bare parts that it is
 * made of, on the same machine in the same run. Prints the ratios first, and writes a table and a chart. Ends with 1 when a server gave a wrong answer: that is no figure.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { writeBenchFiles } from './bench-files.ts'
import { BenchProgress } from './bench-progress.ts'
import { compare, type WorkloadResult } from './comparison.ts'
import { machineFacts } from './machine.ts'
import { printProfile } from './profile-summary.ts'
import { printReport, toJson } from './report.ts'
import { type RunningServer, runningServer, startPouchdbServer, startSettle } from './servers.ts'
import { type Workload, workloads } from './workloads.ts'

const USAGE = `Usage: npm run bench -- [options]

  --only NAMES     these workloads alone, with commas between: ${workloads.map(({ name }) => name).join(',')}
  --seconds N      how long a server is loaded in a round (1)
  --rounds N       how often each server has its turn (5)
  --longest N      seconds after which a workload has no further rounds, once it had two (30)
  --peer URL       a further server, one that runs already; may be given several times
  --alone          without pouchdb-server
  --out DIR        where a table and a chart are written; of a run of all workloads in docs/bench
  --json FILE      write the results to a file too
  --profile DIR    have this server write a profile of its processor use to a folder, and print its summary
  --help           print this
`

const FLAGS = {
  only: { type: 'string' },
  seconds: { type: 'string', default: '1' },
  rounds: { type: 'string', default: '5' },
  longest: { type: 'string', default: '30' },
  peer: { type: 'string', multiple: true, default: [] as string[] },
  alone: { type: 'boolean', default: false },
  out: { type: 'string' },
  json: { type: 'string' },
  profile: { type: 'string' },
  help: { type: 'boolean', default: false },
} as const

async function main(): Promise<void> {
  const flags = parseArgs({ options: FLAGS }).values
  if (flags.help) {
    process.stdout.write(USAGE)
    return
  }
  const chosen = chooseWorkloads(flags.only)
  const options = {
    rounds: positive('rounds', flags.rounds),
    roundMs: positive('seconds', flags.seconds) * 1000,
    workloadMs: positive('longest', flags.longest) * 1000,
  }
  const facts = [...machineFacts(), ...(flags.alone ? [] : ['pouchdb-server does not flush to disk before it answers'])]
  const settle = await startSettle({ profileFolder: flags.profile })
  const servers: RunningServer[] = [settle]
  if (!flags.alone) servers.push(await startPouchdbServer())
  for (const url of flags.peer) servers.push(await runningServer(url))
  const results: WorkloadResult[] = []
  const progress = new BenchProgress(chosen.length)
  for (const workload of chosen) {
    progress.begin(workload.title)
    results.push(await compare(workload, servers, options))
  }
  await Promise.all(servers.map((server) => server.process?.stop()))
  printReport(results, facts)
  const folder = flags.out ?? (flags.only === undefined ? join(import.meta.dirname, '../docs/bench') : undefined)
  if (folder !== undefined) writeBenchFiles(folder, results, facts)
  if (flags.json !== undefined) writeFileSync(flags.json, toJson(results, facts))
  if (flags.profile !== undefined) printProfile(flags.profile, settle.process.pid)
  if (results.some(({ servers }) => servers.some(({ failure }) => failure !== undefined))) process.exitCode = 1
}

function chooseWorkloads(only: string | undefined): readonly Workload[] {
  if (only === undefined) return workloads
  return only.split(',').map((name) => {
    const found = workloads.find((workload) => workload.name === name)
    if (!found) throw new Error(`There is no workload ${name}: ${workloads.map(({ name }) => name).join(', ')}.`)
    return found
  })
}

function positive(name: string, text: string): number {
  const value = Number(text)
  if (!(value > 0)) throw new Error(`--${name} wants a number above 0, not ${text}.`)
  return value
}

main().then(
  () => process.exit(),
  (error: unknown) => {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : error}\n`)
    process.exit(1)
  },
)
