/**
 * Sorted runs as files of one folder. A file gets its name, which tells the sequences it covers, when it is whole and on
 * disk.
 *
 *   of each row: length of its key, length of its value, key, value
 */
import { createWriteStream } from 'node:fs'
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { VarintReader, writeVarint } from '../../encoding/varint.ts'
import { flush } from '../../storage/store-file.ts'
import type { GatheredRows } from './gathered-rows.ts'
import type { SortedRow, SortedRun, SortedRuns } from './sorted-runs.ts'

const FILE_NAME = /^(\d+)-(\d+)\.([0-9a-f]+)\.run$/
const VARINT_BYTES = 8
const READ_BYTES = 1024 * 1024

export class RunFiles implements SortedRuns {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  async resume(mark: string): Promise<SortedRun[]> {
    const names = await readdir(this.#folder).catch(() => [])
    const files = names.flatMap((name) => {
      const [, since, through, itsMark] = FILE_NAME.exec(name) ?? []
      return itsMark === mark ? [{ name, since: Number(since), through: Number(through) }] : []
    })
    const runs: SortedRun[] = []
    const kept = new Set<string>()
    for (let reached = 0; ; ) {
      const next = files.find(({ since, through }) => since === reached && through > reached)
      if (!next) break
      reached = next.through
      kept.add(next.name)
      runs.push(this.#run(next.name, next.since, next.through))
    }
    for (const name of names) if (!kept.has(name)) await rm(join(this.#folder, name), { force: true })
    return runs
  }

  async keep(mark: string, since: number, through: number, rows: GatheredRows): Promise<SortedRun> {
    const name = `${since}-${through}.${mark}.run`
    const path = join(this.#folder, name)
    await mkdir(this.#folder, { recursive: true })
    await pipeline(encoded(rows.sorted()), createWriteStream(`${path}.new`))
    await flush(`${path}.new`)
    await rename(`${path}.new`, path)
    await flush(this.#folder)
    return this.#run(name, since, through)
  }

  async clear(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true })
  }

  #run(name: string, since: number, through: number): SortedRun {
    return { since, through, portions: () => readRun(join(this.#folder, name)) }
  }
}

function* encoded(portions: Iterable<readonly SortedRow[]>): Generator<Buffer> {
  for (const rows of portions) {
    const size = rows.reduce((sum, [key, value]) => sum + 2 * VARINT_BYTES + key.length + value.length, 0)
    const bytes = Buffer.allocUnsafe(size)
    let at = 0
    for (const [key, value] of rows) {
      at = writeVarint(bytes, at, key.length)
      at = writeVarint(bytes, at, value.length)
      bytes.set(key, at)
      bytes.set(value, at + key.length)
      at += key.length + value.length
    }
    yield bytes.subarray(0, at)
  }
}

async function* readRun(path: string): AsyncGenerator<SortedRow[]> {
  await using file = await open(path)
  let rest: Buffer = Buffer.alloc(0)
  for (;;) {
    const chunk = Buffer.allocUnsafe(rest.length + Math.max(READ_BYTES, rest.length))
    rest.copy(chunk)
    const { bytesRead } = await file.read(chunk, rest.length)
    if (bytesRead === 0) {
      if (rest.length > 0) throw new Error(`The file ${path} ends in the middle of a row.`)
      return
    }
    const { rows, end } = decoded(chunk.subarray(0, rest.length + bytesRead))
    rest = chunk.subarray(end, rest.length + bytesRead)
    if (rows.length > 0) yield rows
  }
}

/** The rows that are whole, and where the first one that is not begins. */
function decoded(bytes: Buffer): { readonly rows: SortedRow[]; readonly end: number } {
  const rows: SortedRow[] = []
  const reader = new VarintReader(bytes, 0)
  let end = 0
  // A row that begins near the end may have its lengths cut off.
  while (end + 2 * VARINT_BYTES <= bytes.length || isWhole(bytes, end)) {
    reader.at = end
    const keySize = reader.number()
    const valueSize = reader.number()
    const valueAt = reader.at + keySize
    if (valueAt + valueSize > bytes.length) break
    rows.push([bytes.subarray(reader.at, valueAt), bytes.subarray(valueAt, valueAt + valueSize)])
    end = valueAt + valueSize
  }
  return { rows, end }
}

/** Whether two numbers end within the bytes. */
function isWhole(bytes: Buffer, start: number): boolean {
  let numbers = 0
  for (let at = start; at < bytes.length; at++) if (bytes[at]! < 0x80 && ++numbers === 2) return true
  return false
}
