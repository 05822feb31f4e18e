import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { LMDB_PAGE_BYTES } from '../../src/storage/file-check/page-layout.ts'
import type { WriteTarget } from '../../src/storage/lmdb/library/write-instructions.ts'
import { LmdbEnvironment } from '../../src/storage/lmdb/lmdb-environment.ts'
import { packedRows } from '../../src/storage/rows/packed-rows.ts'
import { SortedFile } from '../../src/storage/sorted-file/sorted-file.ts'
import type { Put } from '../../src/storage/store.ts'

const KEY_LIMIT_BYTES = 2000

let folder = ''
let blank = ''
let files = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'settle-sorted-'))
  blank = join(folder, 'blank.mdb')
  await new LmdbEnvironment(blank, { flush: false, create: true }).close()
})

afterAll(() => rm(folder, { recursive: true, force: true }))

type Rows = Map<string, Buffer>

/** Strings of bytes stand for keys. */
function put(rows: Rows, key: string, value: Buffer): void {
  rows.set(key, value)
}

function sortedPuts(rows: Rows): Put[] {
  const puts = [...rows].map(([key, value]): Put => [Buffer.from(key, 'latin1'), value])
  return puts.sort(([a], [b]) => Buffer.compare(a, b))
}

async function written(rows: Rows, portionRows = 1000): Promise<string> {
  const path = join(folder, `${++files}.mdb`)
  const file = await SortedFile.begin(path, blank)
  const puts = sortedPuts(rows)
  for (let first = 0; first < puts.length; first += portionRows) {
    const portion = puts.slice(first, first + portionRows)
    expect(await file?.add(packedRows(portion), KEY_LIMIT_BYTES)).toBe(portion.length)
  }
  await file?.end()
  return path
}

function expectRows(environment: LmdbEnvironment, rows: Rows): void {
  expect(environment.rowCount()).toBe(rows.size)
  const found = environment.reader.read((transaction) => {
    const range = { from: Buffer.alloc(0), to: undefined, contains: undefined }
    const page = environment.reader.page(transaction, {}, range, { rows: rows.size + 1, bytes: 2 ** 30 })
    return Array.from({ length: page.length }, (_, row) => [page.key(row), page.value(row)] as const)
  })
  const expected = sortedPuts(rows)
  expect(found.length).toBe(expected.length)
  const wrong = found.findIndex(([key, value], i) => {
    const [rightKey, rightValue] = expected[i] ?? []
    return !rightKey || !rightValue || !key.equals(rightKey) || !value.equals(rightValue)
  })
  expect(wrong).toBe(-1)
  const missed = environment.reader.read((transaction) =>
    expected.filter(([key, value]) => !environment.reader.get(transaction, key)?.equals(value)),
  )
  expect(missed).toEqual([])
}

/** Numbers that look random and are always the same. */
function* randomNumbers(seed: number): Generator<number> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    yield state / 2 ** 32
  }
}

/** Edits by the library, in several transactions, here and in the model. */
async function edit(environment: LmdbEnvironment, rows: Rows, random: Iterator<number>): Promise<void> {
  const next = () => random.next().value
  for (let round = 0; round < 6; round++) {
    const keys = [...rows.keys()]
    const edits: ((target: WriteTarget) => void)[] = []
    for (let i = 0; i < Math.min(400, keys.length + 1); i++) {
      const key = keys[Math.floor(next() * keys.length)] ?? 'a'
      const choice = next()
      if (choice < 0.5) {
        rows.delete(key)
        edits.push((target) => target.remove(Buffer.from(key, 'latin1')))
        continue
      }
      const newKey = choice < 0.7 ? key : `${key}${round}`
      const value = Buffer.alloc(Math.floor(next() * (choice > 0.97 ? 30_000 : 200)), 0x62)
      put(rows, newKey, value)
      edits.push((target) => target.put(Buffer.from(newKey, 'latin1'), value))
    }
    await environment.write((target) => {
      for (const edit of edits) edit(target)
    })
  }
}

describe('a file written page by page', () => {
  it.each([0, 1, 2, 70, 3000, 60_000])('is read and written on by the library, with %i rows', async (count) => {
    const random = randomNumbers(count + 1)
    const rows: Rows = new Map()
    for (let i = 0; i < count; i++) {
      const size = i % 500 === 7 ? 5000 + (i % 20_000) : 20 + (i % 130)
      put(
        rows,
        `${i % 3 === 0 ? 'd' : 'r'}${String(i).padStart(7, '0')}${'x'.repeat(i % 37)}`,
        Buffer.alloc(size, 0x61),
      )
    }
    const path = await written(rows)
    const environment = new LmdbEnvironment(path)
    try {
      if (count <= 3000) expectRows(environment, rows)
      await edit(environment, rows, random)
      expectRows(environment, rows)
    } finally {
      await environment.close()
    }
    const again = new LmdbEnvironment(path)
    try {
      expectRows(again, rows)
    } finally {
      await again.close()
    }
  })

  it('holds whatever rows it is given, in several strands', async () => {
    const key = fc.tuple(fc.constantFrom('d', 'm', 'n', 'r'), fc.string({ unit: 'binary-ascii', maxLength: 8 }))
    const value = fc.oneof(
      fc.uint8Array({ maxLength: 60 }),
      fc.integer({ min: 0, max: 40_000 }).map((size) => new Uint8Array(size).fill(7)),
    )
    const longKey = fc.integer({ min: 1, max: KEY_LIMIT_BYTES - 20 })
    const rows = fc.array(fc.tuple(key, value, fc.option(longKey, { freq: 4 })), { maxLength: 300 })
    await fc.assert(
      fc.asyncProperty(rows, fc.integer(), async (list, seed) => {
        const model: Rows = new Map()
        for (const [[first, rest], bytes, long] of list) {
          put(model, `${first}${rest}${'k'.repeat(long ?? 0)}`, Buffer.from(bytes))
        }
        const environment = new LmdbEnvironment(await written(model, 17))
        try {
          expectRows(environment, model)
          await edit(environment, model, randomNumbers(seed))
          expectRows(environment, model)
        } finally {
          await environment.close()
        }
      }),
      { numRuns: 25 },
    )
  })

  it('keeps its first state for who reads it while it is written on', async () => {
    const rows: Rows = new Map()
    for (let i = 0; i < 20_000; i++) put(rows, `r${String(i).padStart(7, '0')}`, Buffer.alloc(100, i))
    const first = sortedPuts(rows)
    const environment = new LmdbEnvironment(await written(rows))
    try {
      const transaction = environment.reader.beginRead()
      try {
        for (let seed = 1; seed < 6; seed++) await edit(environment, rows, randomNumbers(seed))
        const changed = first.filter(([key, value]) => !environment.reader.get(transaction, key)?.equals(value))
        expect(changed).toEqual([])
      } finally {
        environment.reader.endRead(transaction)
      }
      for (let seed = 6; seed < 9; seed++) await edit(environment, rows, randomNumbers(seed))
      expectRows(environment, rows)
    } finally {
      await environment.close()
    }
  })

  it('takes rows of different first bytes in turns', async () => {
    const rows: Rows = new Map()
    const file = await SortedFile.begin(join(folder, 'turns.mdb'), blank)
    for (let i = 0; i < 2000; i++) {
      const number = String(i).padStart(5, '0')
      const puts = [`z${number}`, `a${number}`].map((key): Put => [Buffer.from(key), Buffer.alloc(100, i)])
      for (const [key, value] of puts) put(rows, Buffer.from(key).toString('latin1'), Buffer.from(value))
      expect(await file?.add(packedRows(puts), KEY_LIMIT_BYTES)).toBe(2)
    }
    await file?.end()
    const environment = new LmdbEnvironment(join(folder, 'turns.mdb'))
    try {
      expectRows(environment, rows)
    } finally {
      await environment.close()
    }
  })

  it('takes no row that is out of order or has too long a key', async () => {
    const file = await SortedFile.begin(join(folder, 'order.mdb'), blank)
    const row = (key: string): Put => [Buffer.from(key), Buffer.from('value')]
    expect(await file?.add(packedRows([row('b'), row('c'), row('c'), row('d')]), KEY_LIMIT_BYTES)).toBe(2)
    expect(await file?.add(packedRows([row('ca'), row('c')]), KEY_LIMIT_BYTES)).toBe(1)
    expect(await file?.add(packedRows([row('e'), row('f'.repeat(KEY_LIMIT_BYTES))]), KEY_LIMIT_BYTES)).toBe(1)
    await file?.end()
    const environment = new LmdbEnvironment(join(folder, 'order.mdb'))
    try {
      expectRows(environment, new Map(['b', 'c', 'ca', 'e'].map((key) => [key, Buffer.from('value')])))
    } finally {
      await environment.close()
    }
  })

  it('has no page that nobody needs', async () => {
    const rows: Rows = new Map()
    for (let i = 0; i < 20_000; i++) put(rows, `r${String(i).padStart(7, '0')}`, Buffer.alloc(100, 0x61))
    const path = await written(rows)
    const { size } = await stat(path)
    const environment = new LmdbEnvironment(path)
    try {
      expect(environment.sizes(size)).toEqual({ fileBytes: size, usedBytes: size })
    } finally {
      await environment.close()
    }
    // Eight bytes before each row, two for its place; a hundredth for what is above.
    expect(size).toBeLessThan(1.02 * 20_000 * (8 + 100 + 8 + 2) + 4 * LMDB_PAGE_BYTES)
  })

  it('is not begun like a file of another kind', async () => {
    expect(await SortedFile.begin(join(folder, 'other.mdb'), import.meta.filename)).toBeUndefined()
  })
})

it('holds a few chunks, however large the values are', async () => {
  const file = await SortedFile.begin(join(folder, `${++files}.mdb`), blank)
  const value = Buffer.alloc(200_000, 1)
  for (let portion = 0; portion < 4; portion++) {
    const puts = Array.from({ length: 64 }, (_, i): Put => [Buffer.from(`a${1000 + 64 * portion + i}`), value])
    expect(await file?.add(packedRows(puts), KEY_LIMIT_BYTES)).toBe(puts.length)
    // Eleven chunks at most, of 64 values of 200,000 bytes each.
    expect(file?.heldBytes).toBeLessThan(6_000_000)
  }
  await file?.end()
})
