/**
 * A process whose files may not grow any further, and later may again: the disk is full, or the system limits the size of
 * files. It checks what its engine does meanwhile and ends with code 0 if all is as promised.
 * Run: node full-disk.ts <folder> limit, or, where the folder is a disk of its own: node full-disk.ts <folder> disk
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdir, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { CommitFailedError } from '../../../src/storage/storage-error.ts'
import type { StorageEngine, Store } from '../../../src/storage/store.ts'
import { readAll } from '../model.ts'

const ROW_BYTES = 2000
const ROWS_PER_COMMIT = 20

async function checkFullDisk(folder: string, room: Room): Promise<void> {
  let engine = await LmdbEngine.open({ folder })
  let filler = new Filler(await engine.create('store'))
  for (let i = 0; i < 20; i++) assert(await filler.commit(), 'There is room at first.')

  const { fileBytes } = await filler.store.sizes()
  await room.leave(1_000_000, fileBytes)
  let commits = 0
  while (await filler.commit()) assert(++commits < 1000, 'The disk never gets full.')
  assert(commits > 0, 'Some commits still fit.')
  await filler.check('after the first commit that failed')
  for (let i = 0; i < 20; i++) assert(!(await filler.commit()), 'What is full stays full.')
  await filler.check('after more commits that failed')
  const together = await Promise.all(Array.from({ length: 32 }, () => filler.commit()))
  assert(!together.includes(true), 'Commits that wait together fail together.')
  await filler.check('after commits that failed together')

  await checkNoCreation(engine, folder, room)
  await checkNoCompaction(filler, folder, room)
  await room.leave(0)
  await engine.close()
  engine = await LmdbEngine.open({ folder })
  filler = new Filler(await engine.open('store'), filler.committed)
  await filler.check('after a restart without room')
  assert(!(await filler.commit()), 'What is full stays full.')

  await room.leaveAll()
  await filler.check('when there is room again')
  for (let i = 0; i < 20; i++) assert(await filler.commit(), 'Commits are taken again.')
  await filler.check('after commits in the new room')
  await (await engine.create('other')).commit({ puts: [[Buffer.from('k'), Buffer.from('v')]] })
  await filler.store.compact()
  await filler.check('after a compaction')
  await checkLocks(folder)
  await engine.close()

  const reopened = await LmdbEngine.open({ folder })
  assert.deepEqual(await reopened.list(), ['other', 'store'])
  await new Filler(await reopened.open('store'), filler.committed).check('after a restart')
  await reopened.close()
}

/** Fills a store and knows what must be in it. */
class Filler {
  readonly store: Store
  readonly committed: Set<number>
  #next: number

  constructor(store: Store, committed = new Set<number>()) {
    this.store = store
    this.committed = committed
    this.#next = committed.size
  }

  /** Whether the disk took it. */
  async commit(): Promise<boolean> {
    const number = this.#next++
    try {
      const { version } = await this.store.commit({
        puts: Array.from({ length: ROWS_PER_COMMIT }, (_, row) => [keyOf(number, row), Buffer.alloc(ROW_BYTES, row)]),
      })
      this.committed.add(number)
      assert.equal(version, this.committed.size, 'A commit that failed counts for nothing.')
      return true
    } catch (error) {
      if (!(error instanceof CommitFailedError)) throw error
      return false
    }
  }

  async check(when: string): Promise<void> {
    using snapshot = this.store.snapshot()
    const found = (await readAll(snapshot, {}, 256)).map(({ key }) => key.toString())
    const right = [...this.committed].flatMap((number) =>
      Array.from({ length: ROWS_PER_COMMIT }, (_, row) => keyOf(number, row).toString()),
    )
    assert.deepEqual(found, right.sort(), `The rows are those of the commits that were taken, ${when}.`)
    assert.equal(await snapshot.version(), this.committed.size, `The version counts them, ${when}.`)
  }
}

async function checkNoCreation(engine: StorageEngine, folder: string, room: Room): Promise<void> {
  await room.leave(0)
  await assert.rejects(engine.create('other'), CommitFailedError, 'No room for a new store.')
  assert(!engine.has('other'))
  assert.deepEqual(await unfinished(folder), [], 'Nothing is left of the store that was not made.')
}

async function checkNoCompaction(filler: Filler, folder: string, room: Room): Promise<void> {
  await room.leave((await filler.store.sizes()).usedBytes / 2)
  await assert.rejects(filler.store.compact(), CommitFailedError, 'No room for a compacted file.')
  assert.deepEqual(await unfinished(folder), [], 'Nothing is left of the compaction.')
  await filler.check('after a compaction that failed')
}

/** A lock is written through memory: were its bytes not all there, a full disk would end the process. */
async function checkLocks(folder: string): Promise<void> {
  for (const file of await readdir(folder)) {
    if (!file.endsWith('-lock')) continue
    const found = await stat(join(folder, file)).catch(() => undefined)
    // The lock of a file that was replaced is removed in the background.
    if (found !== undefined) assert(found.blocks * 512 >= found.size, `The lock ${file} has its bytes.`)
  }
}

async function unfinished(folder: string): Promise<string[]> {
  const trash = await readdir(join(folder, '.trash'))
  return [...(await readdir(folder)).filter((file) => file.includes('.new')), ...trash]
}

function keyOf(number: number, row: number): Buffer {
  return Buffer.from(`${String(number).padStart(6, '0')}/${String(row).padStart(3, '0')}`)
}

interface Room {
  /** So many bytes can be written to a new file, or to one that has some. */
  leave(bytes: number, present?: number): Promise<void>
  leaveAll(): Promise<void>
}

/** A limit of the operating system, for this process: Node ignores the signal that comes with it. */
const LIMITED: Room = {
  async leave(bytes, present = 0) {
    limitFiles(Math.max(4096, Math.floor(present + bytes)))
  },
  async leaveAll() {
    limitFiles('unlimited')
  },
}

function limitFiles(limit: number | 'unlimited'): void {
  execFileSync('prlimit', ['--pid', String(process.pid), `--fsize=${limit}:`])
}

/** A disk that another file fills. */
function filledDisk(folder: string): Room {
  const filler = join(folder, 'filler')
  return {
    async leave(bytes) {
      await rm(filler, { force: true })
      const { bavail, bsize } = await statfs(folder)
      await writeFile(filler, Buffer.alloc(Math.max(0, bavail * bsize - bytes)))
    },
    async leaveAll() {
      await rm(filler, { force: true })
    },
  }
}

if (import.meta.main) {
  const [, , folder = '', kind] = process.argv
  await checkFullDisk(folder, kind === 'disk' ? filledDisk(folder) : LIMITED)
}
