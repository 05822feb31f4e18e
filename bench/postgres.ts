/**
 * `npm run bench:postgres`: this server with its databases in PostgreSQL, beside the same server on files and beside
 * pouchdb-server. The PostgreSQL is one of its own, on the same disk, that flushes each commit. `--rounds N`, `--seconds N`,
 * `--only NAMES`, `--alone` (without pouchdb-server).
 */
import { tmpdir } from 'node:os'
import { parseArgs } from 'node:util'
import { TestPostgres } from '../test/support/postgres.ts'
import { parsed, rowsIn } from './bench-database.ts'
import { compare, type WorkloadResult } from './comparison.ts'
import { machineFacts } from './machine.ts'
import { printReport } from './report.ts'
import { type RunningServer, startPouchdbServer, startSettle } from './servers.ts'
import { type Workload, workloads } from './workloads.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1' },
    only: { type: 'string' },
    alone: { type: 'boolean', default: false },
  },
})

const ROWS = 10_000
const PAGE = 100

/** Rows of a view that is up to date. */
const viewQuery: Workload = {
  name: 'view',
  title: `a view, ranges of ${PAGE} rows of 10,000, 8 connections`,
  unit: 'requests',
  prepare: async (database) => {
    await database.fill(ROWS, 300)
    const views = { ids: { map: 'function (doc) { emit(doc._id, null) }' } }
    await database.call('PUT', '/_design/bench', 201, JSON.stringify({ views }))
    await database.call('GET', '/_design/bench/_view/ids?limit=1', 200)
  },
  run: async (database) => {
    let query = 0
    return {
      connections: 8,
      next: () => ({
        request: database.request(
          'GET',
          `/_design/bench/_view/ids?limit=${PAGE}&skip=${(query++ * 7919) % (ROWS - PAGE)}`,
        ),
        check: (reply) => (rowsIn(parsed(reply, 200), PAGE, () => true).length === PAGE ? 1 : 0),
      }),
    }
  },
}

const NAMES = ['get', 'put-1', 'put-32', 'bulk-insert', 'scan', 'changes', 'view']

async function main(): Promise<void> {
  const names = values.only?.split(',') ?? NAMES
  const chosen = [...workloads, viewQuery].filter(({ name }) => names.includes(name))
  const postgres = await TestPostgres.start(tmpdir())
  process.once('exit', () => postgres.remove())
  const onPostgres = await startSettle({ engine: postgres.address('bench') })
  const onFiles = await startSettle()
  const servers: RunningServer[] = [
    { ...onPostgres, name: 'settle on PostgreSQL' },
    { ...onFiles, name: 'settle on files' },
    ...(values.alone ? [] : [await startPouchdbServer()]),
  ]
  const results: WorkloadResult[] = []
  for (const { aim: _, limits: __, ...workload } of chosen) {
    process.stderr.write(`${workload.title}…\n`)
    results.push(
      await compare(workload, servers, {
        rounds: Number(values.rounds),
        roundMs: Number(values.seconds) * 1000,
        workloadMs: Number.POSITIVE_INFINITY,
      }),
    )
  }
  await Promise.all(servers.map((server) => server.process?.stop()))
  printReport(results, [...machineFacts(), 'PostgreSQL runs on the same machine and takes part of its processors'])
}

main().then(
  () => process.exit(),
  (error: unknown) => {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : error}\n`)
    process.exit(1)
  },
)
