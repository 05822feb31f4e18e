/**
 * `npm run bench:backup`: how fast databases are backed up, verified, restored and checked, each by the command that an
 * operator runs, in a process of its own beside the server.
 */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { BenchDatabase } from './bench-database.ts'
import { NodeProcess, temporaryFolder } from './child-process.ts'
import { machineFacts } from './machine.ts'
import { count, printTable } from './report.ts'
import { startSettle } from './servers.ts'

const FLAGS = {
  documents: { type: 'string', default: '100000' },
  bytes: { type: 'string', default: '1000' },
  attachments: { type: 'string', default: '20' },
} as const

const ATTACHMENT_BYTES = 5_000_000
const CLI = join(import.meta.dirname, '../src/cli.ts')

async function main(): Promise<void> {
  const { values } = parseArgs({ options: FLAGS })
  const [documents, sizeBytes, attachments] = [values.documents, values.bytes, values.attachments].map(Number)
  if (!documents || !sizeBytes || attachments === undefined) throw new Error('Say numbers.')
  const facts = machineFacts()
  const rows: string[][] = []
  const measure = async (title: string, args: readonly string[], inputBytes: () => number) => {
    process.stderr.write(`${title}…\n`)
    const start = performance.now()
    await run(args)
    const seconds = (performance.now() - start) / 1000
    const megabytes = inputBytes() / 1e6
    rows.push([title, seconds.toFixed(1), count(megabytes), count(megabytes / seconds), count(documents / seconds)])
  }
  const source = await startSettle()
  const database = new BenchDatabase(source.url, 'sample')
  await database.create()
  process.stderr.write(`Filling a database with ${count(documents)} documents…\n`)
  await database.fill(documents, sizeBytes)
  const content = 'x'.repeat(ATTACHMENT_BYTES)
  const type = { contentType: 'application/octet-stream' }
  for (let i = 0; i < attachments; i++) await database.call('PUT', `/file-${i}/content`, 201, content, type)
  const to = join(temporaryFolder(), 'backups')
  const backup = ['backup', '--to', to, '--url', source.url, '--db', 'sample', '--quiet']
  const backupBytes = () => sizeOf(to)
  await measure('backup, whole', backup, backupBytes)
  await measure('backup, nothing new', backup, () => 0)
  await measure('verify', ['backup', 'verify', to, '--quiet'], backupBytes)
  const dir = join(temporaryFolder(), 'data')
  const target = await startSettle({ dir })
  const restore = ['restore', '--from', to, '--url', target.url, '--db', 'sample', '--quiet']
  await measure('restore', restore, backupBytes)
  await target.process.stop()
  await source.process.stop()
  await measure('check, of a stopped server', ['check', '--dir', dir, '--quiet'], () => sizeOf(dir))
  console.log()
  printTable(['', 'seconds', 'MB', 'MB/s', 'documents/s'], rows)
  console.log()
  for (const fact of facts) console.log(fact)
  console.log(`${count(documents)} documents of ${count(sizeBytes)} bytes, ${attachments} attachments of 5 MB`)
}

async function run(args: readonly string[]): Promise<void> {
  const child = new NodeProcess({ args: [CLI, ...args] })
  const code = await child.ended()
  if (code !== 0) throw new Error(`settle ${args[0]} ended with ${code}.`)
}

function sizeOf(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0)
}

main().then(
  () => process.exit(),
  (error: unknown) => {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : error}\n`)
    process.exit(1)
  },
)
