/**
 * Sorted runs as files of one folder. The name of a file gives the sequences it covers; a file gets it when it is complete and
 * on disk.
 *
 *   of each row: length of its key, length of its value, key, value
 */
import { createWriteStream } from 'node:fs'
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { VarintReader, writeVarint } from '../../encoding/bytes/short-bytes.ts'
import { flush } from '../../storage/files/store-file.ts'
import type { PackedRows } from '../../storage/store.ts'
import type { GatheredRows } from './gathered-rows.ts'
import type { SortedRun, SortedRuns } from './sorted-runs.ts'

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
    rows.release()
    return this.#run(name, since, through)
  }

  async clear(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true })
  }

  #run(name: string, since: number, through: number): SortedRun {
    return { since, through, portions: () => readRun(join(this.#folder, name)) }
  }
}

function* encoded(portions: Iterable<PackedRows>): Generator<Buffer> {
  for (const { length, block, bounds } of portions) {
    let size = 2 * VARINT_BYTES * length
    for (let row = 0; row < length; row++) size += bounds[3 * row + 2]! - bounds[3 * row]!
    const bytes = Buffer.allocUnsafe(size)
    let at = 0
    for (let row = 0; row < length; row++) {
      const keyAt = bounds[3 * row]!
      const valueAt = bounds[3 * row + 1]!
      const end = bounds[3 * row + 2]!
      at = writeVarint(bytes, at, valueAt - keyAt)
      at = writeVarint(bytes, at, end - valueAt)
      at += block.copy(bytes, at, keyAt, end)
    }
    yield bytes.subarray(0, at)
  }
}

async function* readRun(path: string): AsyncGenerator<PackedRows> {
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
function decoded(block: Buffer): { readonly rows: PackedRows; readonly end: number } {
  const bounds: number[] = []
  const reader = new VarintReader(block, 0)
  let end = 0
  // A row that begins near the end may have its lengths cut off.
  while (end + 2 * VARINT_BYTES <= block.length || isWhole(block, end)) {
    reader.at = end
    const keySize = reader.number()
    const valueSize = reader.number()
    const valueAt = reader.at + keySize
    if (valueAt + valueSize > block.length) break
    bounds.push(reader.at, valueAt, valueAt + valueSize)
    end = valueAt + valueSize
  }
  return { rows: { length: bounds.length / 3, block, bounds: Uint32Array.from(bounds) }, end }
}

/** Whether two numbers end within the bytes. */
function isWhole(bytes: Buffer, start: number): boolean {
  let numbers = 0
  for (let at = start; at < bytes.length; at++) if (bytes[at]! < 0x80 && ++numbers === 2) return true
  return false
}
