/** Commits that fail inside the library: nothing may wait for ever, and the file is written again once it was reopened. */
import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { libraryUse } from '../../../src/storage/lmdb/library/library-use.ts'
import { LmdbEnvironment } from '../../../src/storage/lmdb/lmdb-environment.ts'
import { OpenFiles } from '../../../src/storage/lmdb/open-files.ts'
import { CommitFailedError } from '../../../src/storage/storage-error.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const KEY = Buffer.from('key')

const write = (environment: LmdbEnvironment, value: string) =>
  environment.write((target) => target.put(KEY, Buffer.from(value)))

const read = (environment: LmdbEnvironment) =>
  environment.reader.read((transaction) => environment.reader.get(transaction, KEY))?.toString()

async function newFile(): Promise<string> {
  const path = join(await temporaryFolder(), 'file.mdb')
  await new LmdbEnvironment(path, { create: true }).close()
  return path
}

/** `O_DSYNC` */
const FLUSHED_WRITES = 0o10000

/** The descriptor by which the library writes meta pages becomes one that refuses everything. */
function failMetaPages(path: string): void {
  const meta = readdirSync('/proc/self/fd').find((descriptor) => {
    try {
      if (readlinkSync(`/proc/self/fd/${descriptor}`) !== path) return false
      const flags = /flags:\s*(\d+)/.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1'))?.[1] ?? '0'
      return (Number.parseInt(flags, 8) & FLUSHED_WRITES) !== 0
    } catch {
      return false
    }
  })
  closeSync(Number(meta))
  // The lowest number that is free is given out first.
  const opened: number[] = []
  while (opened.at(-1) !== Number(meta)) opened.push(openSync('/dev/full', 'w'))
  for (const descriptor of opened.slice(0, -1)) closeSync(descriptor)
}

describe.runIf(process.platform === 'linux')('a meta page that cannot be written', () => {
  it.each([
    ['native', {}],
    ['as promised', { native_writes: false }],
  ])('fails its commit and those after it, until the file was closed: %s', async (_, off) => {
    const path = await newFile()
    const files = new OpenFiles(10, { use: { ...libraryUse(), ...off } })
    onTestFinished(() => files.close())
    const environment = files.acquire(path)
    await write(environment, 'first')
    failMetaPages(path)
    await expect(write(environment, 'second')).rejects.toThrow('No space left')
    await expect(write(environment, 'third')).rejects.toThrow('No space left')
    files.release(environment)
    await files.closed()
    const again = files.acquire(path)
    expect(read(again)).toBe('first')
    await write(again, 'fourth')
    expect(read(again)).toBe('fourth')
    files.release(again)
  })
})

/** Where the mutex of writers has its kind, in the lock file. On ARM the mutex before it is larger and takes one more cache line. */
const MUTEX_KIND_AT = (process.arch === 'arm64' ? 128 : 64) + 16

describe.runIf(process.platform === 'linux')('a transaction that cannot begin', () => {
  it('is an error, as is each one after it, and does not block the process', async () => {
    const environment = new LmdbEnvironment(await newFile())
    await write(environment, 'first')
    const lock = openSync(`${environment.path}-lock`, 'r+')
    onTestFinished(() => closeSync(lock))
    // No mutex is of this kind: to lock it fails.
    writeSync(lock, Buffer.from([0xff, 0xff, 0xff, 0xff]), 0, 4, MUTEX_KIND_AT)
    await expect(write(environment, 'second')).rejects.toThrow(CommitFailedError)
    await expect(write(environment, 'third')).rejects.toThrow(CommitFailedError)
    expect(read(environment)).toBe('first')
    await environment.close()
  })
})
