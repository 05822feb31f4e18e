/**
 * What it would cost if several processes committed to the same LMDB files under its own lock, instead of one that does it for
 * all: `npm run bench:writing-processes`. Writers are shared out between the processes, and each writes to every file. Those
 * that wait for the same file in one process share its next commit. A commit is made upon the version that its process has
 * read, as for documents, and is made again where another process has committed meanwhile.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LmdbEnvironment } from '../src/storage/lmdb/lmdb-environment.ts'
import { VERSION_KEY, versionBytes, versionOf } from '../src/storage/rows/stored-key.ts'
import { median } from './comparison.ts'

const WRITERS = 32
const ROUNDS = 5
const ROUND_MS = 1500
/** Of a document of 300 bytes: record, body, place among the changes. */
const ROWS_BYTES = [60, 300, 40]

interface Measure {
  readonly documents: number
  readonly commits: number
  readonly refused: number
  readonly processorMs: number
}

async function compare(): Promise<void> {
  for (const count of [1, 4, 100]) {
    const figures = [1, 2, 4].map((processes) => ({ processes, measures: [] as Measure[] }))
    for (let round = 0; round < ROUNDS; round++)
      for (const { processes, measures } of figures) measures.push(await measure(processes, count))
    console.log(`\n${count} file${count === 1 ? '' : 's'}, ${WRITERS} writers`)
    console.table(
      Object.fromEntries(
        figures.map(({ processes, measures }) => {
          const of = (figure: (each: Measure) => number) => median(measures.map(figure))
          const row = {
            'documents a second': Math.round(of(({ documents }) => documents / (ROUND_MS / 1000))),
            'documents a commit': Number(of(({ documents, commits }) => documents / commits).toFixed(1)),
            'refused, %': Math.round(of(({ commits, refused }) => (100 * refused) / (commits + refused))),
            'processor µs a document': Math.round(of(({ documents, processorMs }) => (processorMs * 1000) / documents)),
          }
          return [`${processes} process${processes === 1 ? '' : 'es'}`, row]
        }),
      ),
    )
  }
}

async function measure(processes: number, count: number): Promise<Measure> {
  const place = await mkdtemp(join(tmpdir(), 'settle-bench-'))
  try {
    for (let file = 0; file < count; file++) {
      const environment = new LmdbEnvironment(join(place, `${file}.mdb`), { create: true })
      await environment.write((target) => target.put(Buffer.from([1]), Buffer.alloc(1)))
      await environment.close()
    }
    const children = Array.from({ length: processes }, () =>
      fork(import.meta.filename, ['writer', place, String(count), String(WRITERS / processes)]),
    )
    // Files are opened one process after the other: nobody may write meanwhile.
    for (const child of children) {
      child.send('open')
      await once(child, 'message')
    }
    const answers = children.map((child) => once(child, 'message') as Promise<[Measure]>)
    for (const child of children) child.send('write')
    const measures = (await Promise.all(answers)).map(([each]) => each)
    for (const child of children) child.disconnect()
    await Promise.all(children.map((child) => once(child, 'exit')))
    const sum = (figure: (each: Measure) => number) => measures.reduce((all, each) => all + figure(each), 0)
    return {
      documents: sum(({ documents }) => documents),
      commits: sum(({ commits }) => commits),
      refused: sum(({ refused }) => refused),
      processorMs: sum(({ processorMs }) => processorMs),
    }
  } finally {
    await rm(place, { recursive: true, force: true })
  }
}

/** In a process of its own. */
async function write(place: string, count: number, concurrency: number): Promise<void> {
  await once(process, 'message')
  const stores = Array.from({ length: count }, (_, file) => new GroupedStore(join(place, `${file}.mdb`)))
  process.send?.('open')
  await once(process, 'message')
  const endMs = performance.now() + ROUND_MS
  const before = process.cpuUsage()
  let documents = 0
  const keepWriting = async () => {
    while (performance.now() < endMs) {
      await stores[Math.floor(Math.random() * count)]!.add()
      documents++
    }
  }
  await Promise.all(Array.from({ length: concurrency }, keepWriting))
  const { user, system } = process.cpuUsage(before)
  const sum = (figure: 'commits' | 'refused') => stores.reduce((all, store) => all + store[figure], 0)
  process.send?.({ documents, commits: sum('commits'), refused: sum('refused'), processorMs: (user + system) / 1000 })
  await once(process, 'disconnect')
  process.exit()
}

/** Documents that are added while a commit is under way share the next one. */
class GroupedStore {
  commits = 0
  refused = 0
  readonly #environment: LmdbEnvironment
  #waiting: (() => void)[] = []
  #isRunning = false

  constructor(path: string) {
    this.#environment = new LmdbEnvironment(path, { isShared: true })
  }

  add(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      if (!this.#isRunning) void this.#run()
    })
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    while (this.#waiting.length > 0) {
      const group = this.#waiting
      this.#waiting = []
      while (!(await this.#commit(group.length))) this.refused++
      this.commits++
      for (const resolve of group) resolve()
    }
    this.#isRunning = false
  }

  #commit(documents: number): Promise<boolean> {
    const { reader } = this.#environment
    const version = reader.read((transaction) => versionOf(reader.get(transaction, VERSION_KEY)))
    const condition = { key: VERSION_KEY, value: version > 0 ? versionBytes(version) : undefined }
    return this.#environment.write((target) => {
      for (let i = 0; i < documents; i++)
        for (const bytes of ROWS_BYTES) target.put(randomKey(), Buffer.alloc(bytes, i))
      target.put(VERSION_KEY, versionBytes(version + 1))
    }, condition)
  }
}

function randomKey(): Buffer {
  const key = Buffer.alloc(16, 2)
  key.writeDoubleBE(Math.random(), 8)
  return key
}

const [, , role, folder = '', files = '', writers = ''] = process.argv
if (role === 'writer') await write(folder, Number(files), Number(writers))
else await compare()
