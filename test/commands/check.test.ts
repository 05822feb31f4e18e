import { cp, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { pagesOf } from '../../src/check/checked-rows.ts'
import { checkDatabase as checkFaults } from '../../src/check/database-check.ts'
import { repairDatabase } from '../../src/check/database-repair.ts'
import { addRecord, type DocumentRecord, decodeRecord } from '../../src/database/layout/document-record.ts'
import {
  ATTACHMENT_PREFIX,
  attachmentKey,
  bodyKey,
  changeKey,
  type DatabaseState,
  decodeState,
  documentKey,
  EXPIRY_PREFIX,
  encodeState,
  PURGE_PREFIX,
  RANK_PREFIX,
  STATE_KEY,
  treeKey,
} from '../../src/database/layout/keys.ts'
import { createService } from '../../src/service.ts'
import { LMDB_PAGE_BYTES } from '../../src/storage/file-check/page-layout.ts'
import { LmdbEngine } from '../../src/storage/lmdb/lmdb-engine.ts'
import { PackedRowsWriter, unpacked } from '../../src/storage/rows/packed-rows.ts'
import type { Changes, Snapshot } from '../../src/storage/store.ts'
import { documentKey as indexDocumentKey, nodePrefix, rowPrefix } from '../../src/views/layout/index-layout.ts'
import { checkDatabase } from '../database/check-database.ts'
import { storagePlace } from '../support/storage-place.ts'
import { contentsOf } from './compare-databases.ts'
import { runSettle, startSettle } from './run-settle.ts'

const JSON_TYPE = { 'Content-Type': 'application/json' }
const VIEW = 'sample/_design/views/_view'

/** A folder of a stopped server with a bit of everything, and what it holds. */
let original: string
let contents: Map<string, string>
let rows: string

async function send(url: string, method: string, path: string, body?: unknown) {
  const text = body === undefined ? undefined : JSON.stringify(body)
  const reply = await fetch(`${url}${path}`, { method, headers: JSON_TYPE, ...(text !== undefined && { body: text }) })
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`)
  return JSON.parse(await reply.text())
}

async function viewRows(url: string): Promise<string> {
  const [sums, customs, plain] = await Promise.all(
    ['sum?group=true', 'custom?group=true', 'plain'].map((view) => send(url, 'GET', `${VIEW}/${view}`)),
  )
  return JSON.stringify([sums, customs, plain.rows.length, plain.rows.at(-1)])
}

beforeAll(async () => {
  const place = await storagePlace({ inMemory: false })
  original = place.options.dir ?? ''
  const service = await createService({ dir: original, port: 0 })
  const url = await service.listen()
  await send(url, 'PUT', 'sample')
  const docs = Array.from({ length: 300 }, (_, i) => ({ _id: `doc-${i}`, n: i % 10 }))
  await send(url, 'POST', 'sample/_bulk_docs', { docs })
  const edits = ['b', 'c'].map((hash) => ({
    _id: 'conflict',
    _rev: `2-${hash}`,
    _revisions: { start: 2, ids: [hash, 'a'] },
  }))
  await send(url, 'POST', 'sample/_bulk_docs', { docs: edits, new_edits: false })
  let rev = ''
  // Its tree lies apart.
  for (let i = 0; i < 30; i++) ({ rev } = await send(url, 'PUT', `sample/long${rev && `?rev=${rev}`}`, { i }))
  const data = Buffer.alloc(300_000, 5).toString('base64')
  await send(url, 'PUT', 'sample/files', {
    _attachments: { 'big.bin': { content_type: 'application/octet-stream', data } },
  })
  const { rev: gone } = await send(url, 'PUT', 'sample/gone', {})
  await send(url, 'DELETE', `sample/gone?rev=${gone}`)
  const { rev: purged } = await send(url, 'PUT', 'sample/purged', {})
  await send(url, 'POST', 'sample/_purge', { purged: [purged] })
  await send(url, 'PUT', 'sample/_local/one', { local: true })
  await send(url, 'PUT', 'sample/_security', { members: { names: [], roles: [] } })
  const map = 'doc => { if ("n" in doc) emit(doc.n, 1) }'
  await send(url, 'PUT', 'sample/_design/views', {
    views: {
      sum: { map, reduce: '_sum' },
      custom: { map: `${map} `, reduce: '(keys, values, rereduce) => (rereduce ? sum(values) : values.length)' },
      plain: { map: `${map}  ` },
    },
  })
  contents = await contentsOf(url, 'sample')
  rows = await viewRows(url)
  await service.close()
  return place.remove
})

/** In memory that looks like a disk, where the system has it. */
async function quickFolder(): Promise<string> {
  const { options, remove } = await storagePlace({ inMemory: false })
  onTestFinished(remove)
  return options.dir ?? ''
}

/** A copy of the folder, with something changed behind the server's back. */
async function damaged(plant: Plant, folder = ''): Promise<string> {
  const dir = await quickFolder()
  await cp(original, dir, { recursive: true })
  await plantIn(join(dir, folder), plant)
  return dir
}

async function plantIn(folder: string, plant: Plant): Promise<void> {
  const engine = await LmdbEngine.open({ folder })
  const name = (await engine.list()).find((each) => each.startsWith('sample'))
  const store = await engine.open(name ?? '')
  using snapshot = store.snapshot()
  const changes = await plant(snapshot)
  snapshot.release()
  await store.commit(changes)
  await engine.close()
}

/** Repairs a database as a process does that ends after some commits. False where it did not come to the end. */
async function repairedUntil(folder: string, commits: number): Promise<boolean> {
  const engine = await LmdbEngine.open({ folder })
  const store = await engine.open('sample')
  let left = commits
  const ended = new Error('It has ended.')
  const ending = new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      if (name !== 'commit') return member.bind(target)
      return async (changes: Changes) => {
        if (left-- === 0) throw ended
        return store.commit(changes)
      }
    },
  })
  try {
    await repairDatabase(ending)
    return true
  } catch (error) {
    if (error !== ended) throw error
    return false
  } finally {
    await engine.close()
  }
}

async function firstRow(snapshot: Snapshot, prefix: Buffer): Promise<readonly [Buffer, Buffer]> {
  const page = await snapshot.page({ from: prefix }, { rows: 1 })
  return [Buffer.from(page.key(0)), Buffer.from(page.value(0))]
}

async function stateOf(snapshot: Snapshot): Promise<DatabaseState> {
  return decodeState((await snapshot.get(STATE_KEY)) ?? Buffer.from('{}'))
}

async function recordOf(snapshot: Snapshot, id: string): Promise<DocumentRecord> {
  return decodeRecord((await snapshot.get(documentKey(id))) ?? Buffer.alloc(0))
}

/** The row of a record that is not what its tree says. */
async function changedRecord(snapshot: Snapshot, id: string, change: Partial<DocumentRecord>): Promise<Changes> {
  const record = await recordOf(snapshot, id)
  if (!record.tree) throw new Error('Its tree lies apart.')
  const packed = new PackedRowsWriter()
  addRecord(packed, documentKey(id), {
    ...record,
    ...change,
    tree: record.tree,
    deleted: change.deleted ?? record.deleted,
  })
  return { puts: [...unpacked(packed)] }
}

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at]! ^= 0x15
  return copy
}

type Plant = (snapshot: Snapshot) => Promise<Changes>

const derived: Record<string, [Plant, RegExp]> = {
  'an expiry of no time': [
    async () => ({ puts: [[Buffer.concat([EXPIRY_PREFIX, Buffer.from('x')]), Buffer.alloc(0)]] }),
    /row of the queue of expiry/,
  ],
  'a change row that is missing': [
    async (snapshot) => ({ deletes: [changeKey((await recordOf(snapshot, 'doc-7')).sequence)] }),
    /document 'doc-7': Its change \d+ is missing/,
  ],
  'a change row that is flipped': [
    async (snapshot) => {
      const key = changeKey((await recordOf(snapshot, 'doc-7')).sequence)
      const stored = (await snapshot.get(key)) ?? Buffer.alloc(0)
      return { puts: [[key, flipped(stored, stored.length - 10)]] }
    },
    /document 'doc-7': Its change .*/,
  ],
  'a change that is not the last one of its document': [
    async (snapshot) => ({
      puts: [
        [
          changeKey(5000),
          (await snapshot.get(changeKey((await recordOf(snapshot, 'doc-7')).sequence))) ?? Buffer.alloc(0),
        ],
      ],
    }),
    /There is a change 5000 that is not its last one/,
  ],
  'a wrong count': [
    async (snapshot) => {
      const state = await stateOf(snapshot)
      return { puts: [[STATE_KEY, encodeState({ ...state, documentCount: state.documentCount + 1 })]] }
    },
    /The count of documents is 305; there are 304/,
  ],
  'a sequence that is too low': [
    async (snapshot) => {
      const state = await stateOf(snapshot)
      return { puts: [[STATE_KEY, encodeState({ ...state, updateSequence: 10, nextBody: 10 })]] }
    },
    /The update sequence is 10/,
  ],
  'a row of counts that cannot be read': [
    async () => ({ puts: [[STATE_KEY, Buffer.from('{"documentCount":')]] }),
    /The row of its counts cannot be read/,
  ],
  'a wrong rank node': [
    async (snapshot) => {
      const [key, value] = await firstRow(snapshot, RANK_PREFIX)
      return { puts: [[key, flipped(value, 0)]] }
    },
    /nodes of the rank tree are wrong or missing/,
  ],
  'a rank node that ought not to be there': [
    async () => ({ puts: [[Buffer.concat([RANK_PREFIX, Buffer.of(1), Buffer.from('doc-nobody')]), Buffer.of(1, 0)]] }),
    /1 nodes of the rank tree ought not to be there/,
  ],
  'an orphaned body': [
    async () => ({ puts: [[bodyKey(4000), Buffer.from('\0{}')]] }),
    /The body 4000 belongs to no document/,
  ],
  'a tree that no record speaks of': [
    async (snapshot) => ({ puts: [[treeKey('doc-7'), (await snapshot.get(treeKey('long'))) ?? Buffer.alloc(0)]] }),
    /document 'doc-7': There is a revision tree that no record speaks of/,
  ],
  'a record that shows another state than its winner has': [
    async (snapshot) => changedRecord(snapshot, 'conflict', { deleted: true, bodyBytes: 99 }),
    /document 'conflict': Whether it is deleted/,
  ],
  'two documents with one sequence': [
    async (snapshot) => changedRecord(snapshot, 'conflict', { sequence: (await recordOf(snapshot, 'doc-7')).sequence }),
    /document 'conflict': Its change \d+ is of 'doc-7'/,
  ],
}

/** What a repair brings back with less than it had. */
const salvaged: Record<string, [Plant, RegExp]> = {
  'a record that is missing': [
    async () => ({ deletes: [documentKey('doc-7')] }),
    /document 'doc-7': Its record is missing\. All of it can be made again/,
  ],
  'a record that is missing, whose tree lies apart': [
    async () => ({ deletes: [documentKey('long')] }),
    /document 'long': Its record is missing\. All of it can be made again/,
  ],
  'the record of a tombstone that is missing': [
    async () => ({ deletes: [documentKey('gone')] }),
    /document 'gone': Its record is missing\. Its newest revision is there, its history is not/,
  ],
}

const lost: Record<string, [Plant, RegExp]> = {
  'a record of several leaves that is missing': [
    async () => ({ deletes: [documentKey('conflict')] }),
    /document 'conflict': Its record is missing/,
  ],
  'all purges missing': [
    async (snapshot) => ({ deletes: [(await firstRow(snapshot, PURGE_PREFIX))[0]] }),
    /The purges since 0 are missing/,
  ],
  'a wrong digest': [
    async (snapshot) => {
      const [key, value] = await firstRow(snapshot, ATTACHMENT_PREFIX)
      return { puts: [[key, flipped(value, 1000)]] }
    },
    /document 'files': The bytes of its attachment 'big.bin' do not have its digest/,
  ],
  'a chunk that is missing': [
    async () => ({ deletes: [attachmentKey(1, 1)] }),
    /document 'files': The bytes of its attachment 'big.bin' are not all there/,
  ],
  'a body that is missing': [
    async (snapshot) => ({ deletes: [bodyKey((await recordOf(snapshot, 'doc-7')).body)] }),
    /document 'doc-7': Its body \d+ is missing/,
  ],
  'a body that is flipped': [
    async (snapshot) => {
      const key = bodyKey((await recordOf(snapshot, 'doc-7')).body)
      return { puts: [[key, flipped((await snapshot.get(key)) ?? Buffer.alloc(0), 1)]] }
    },
    /document 'doc-7': Its body \d+ cannot be understood/,
  ],
  'a tree that is missing': [
    async () => ({ deletes: [treeKey('long')] }),
    /document 'long': Its revision tree is missing/,
  ],
  'an identity that is missing': [
    async () => ({ deletes: [Buffer.from('midentity')] }),
    /The row of its identity is missing/,
  ],
  'a purge that is missing': [
    async (snapshot) => ({
      deletes: [(await firstRow(snapshot, PURGE_PREFIX))[0]],
      puts: [[Buffer.concat([PURGE_PREFIX, Buffer.from('0000000000000000', 'hex')]), Buffer.from('{}')]],
    }),
    /The purges since 0 are missing/,
  ],
  'a row of no known kind': [
    async () => ({ puts: [[Buffer.from('zzz'), Buffer.from('?')]] }),
    /row of an unknown kind/,
  ],
}

const ofIndex: Record<string, [Plant, RegExp]> = {
  'an index row that is missing': [
    async (snapshot) => ({ deletes: [(await firstRow(snapshot, rowPrefix(0)))[0]] }),
    /document 'doc-\d+': A row of it is missing in the view '\w+' of _design\/views/,
  ],
  'an index row that nothing lists': [
    async (snapshot) => ({
      deletes: [indexDocumentKey(Buffer.from('doc-7'))],
      puts: [],
      clears: [],
      expected: await snapshot.version(),
    }),
    /has 300 rows; documents list 299 of them/,
  ],
  'a wrong reduction': [
    async (snapshot) => {
      // Views are numbered in the order of their names: custom, plain, sum.
      const [key, value] = await firstRow(snapshot, nodePrefix(2))
      return { puts: [[key, flipped(value, value.length - 1)]] }
    },
    /nodes of the rank tree of the view 'sum' of _design\/views are wrong/,
  ],
  'a wrong rank node of an index': [
    async (snapshot) => {
      const [key, value] = await firstRow(snapshot, nodePrefix(0))
      return { puts: [[key, flipped(value, 0)]] }
    },
    /nodes of the rank tree of the view '\w+' of _design\/views are wrong/,
  ],
  'a state that cannot be understood': [
    async () => ({ puts: [[Buffer.from('ms'), Buffer.from('{')]] }),
    /The row of its state cannot be understood/,
  ],
}

async function expectRepaired(dir: string): Promise<void> {
  const repaired = await runSettle(['check', '--dir', dir, '--repair'])
  expect(repaired).toMatchObject({ code: 0, err: expect.stringMatching(/nothing is wrong/) })
  // Another check, of the tests' own.
  const engine = await LmdbEngine.open({ folder: dir })
  using snapshot = (await engine.open('sample')).snapshot()
  expect(await checkDatabase(snapshot)).toEqual([])
  snapshot.release()
  await engine.close()
}

describe('settle check', () => {
  it('finds no fault in a good folder', async () => {
    const { code, out, err } = await runSettle(['check', '--dir', original])
    expect([code, out.toString()]).toEqual([0, ''])
    expect(err).toMatch(/databases? checked: nothing is wrong/)
  })

  it('finds no fault in a database that has no rows yet', async () => {
    const dir = await quickFolder()
    await cp(original, dir, { recursive: true })
    const engine = await LmdbEngine.open({ folder: dir })
    await engine.create('new')
    await engine.close()
    const { code, out } = await runSettle(['check', '--dir', dir])
    expect([code, out.toString()]).toEqual([0, ''])
  })

  it.each(Object.entries(derived))('finds and repairs %s', async (_, [plant, message]) => {
    const dir = await damaged(plant)
    const { code, out } = await runSettle(['check', '--dir', dir])
    expect([code, out.toString()]).toEqual([3, expect.stringMatching(message)])
    await expectRepaired(dir)
  })

  it.each(Object.entries(salvaged))('finds %s, and brings the document back', async (_, [plant, message]) => {
    const dir = await damaged(plant)
    const { code, out } = await runSettle(['check', '--dir', dir])
    expect([code, out.toString()]).toEqual([3, expect.stringMatching(message)])
    await expectRepaired(dir)
    const service = await createService({ dir, port: 0 })
    onTestFinished(() => service.close())
    const url = await service.listen()
    expect((await send(url, 'GET', 'sample')).doc_count).toBe(304)
    expect(await send(url, 'GET', 'sample/doc-7')).toMatchObject({ n: 7 })
    expect(await send(url, 'GET', 'sample/long')).toMatchObject({ i: 29 })
    expect(await send(url, 'GET', 'sample/_all_docs?keys=["gone"]')).toMatchObject({
      rows: [{ value: { deleted: true } }],
    })
    expect(await viewRows(url)).toBe(rows)
  })

  it('removes nothing that may be all that is left of a document', async () => {
    let body = 0
    const dir = await damaged(async (snapshot) => {
      const record = await recordOf(snapshot, 'doc-7')
      body = record.body
      return { deletes: [documentKey('doc-7'), changeKey(record.sequence)] }
    })
    expect((await runSettle(['check', '--dir', dir, '--repair'])).code).toBe(3)
    const engine = await LmdbEngine.open({ folder: dir })
    using snapshot = (await engine.open('sample')).snapshot()
    expect(await snapshot.get(bodyKey(body))).toBeDefined()
    snapshot.release()
    await engine.close()
  })

  it.each(Object.entries(ofIndex))('finds %s, and has the index rebuilt', async (_, [plant, message]) => {
    const dir = await damaged(plant, 'view_indexes')
    const { code, out } = await runSettle(['check', '--dir', dir])
    expect([code, out.toString()]).toEqual([3, expect.stringMatching(message)])
    await expectRepaired(dir)
  })

  it('keeps what a repair finds beside the counts', async () => {
    const more = { revisionLimit: 77, compactedTo: { fileBytes: 1, dataBytes: 1 } }
    const dir = await damaged(async (snapshot) => {
      const state = await stateOf(snapshot)
      return { puts: [[STATE_KEY, encodeState({ ...state, ...more, documentCount: 1 })]] }
    })
    await expectRepaired(dir)
    const engine = await LmdbEngine.open({ folder: dir })
    using snapshot = (await engine.open('sample')).snapshot()
    expect(await stateOf(snapshot)).toMatchObject({ ...more, documentCount: 304 })
    snapshot.release()
    await engine.close()
  })

  it('drops indexes before it repairs their database: interrupted in between, nothing would show that they are wrong', async () => {
    const [plant] = Object.values(derived)[0]!
    const { code, err } = await runSettle(['check', '--repair', '--dir', await damaged(plant)])
    expect([code, err]).toEqual([0, expect.stringMatching(/sample\S*: dropped\..*sample: repaired/s)])
    expect(err).not.toMatch(/repaired.*dropped/s)
  })

  it('repairs what an interrupted repair has left, wherever it was interrupted', async () => {
    for (let commits = 0; ; commits++) {
      expect(commits).toBeLessThan(10)
      const dir = await quickFolder()
      await cp(original, dir, { recursive: true })
      for (const [plant] of Object.values(derived)) await plantIn(dir, plant)
      const isWhole = await repairedUntil(dir, commits)
      await expectRepaired(dir)
      if (isWhole) return
    }
  })

  it('leaves a folder that a server continues with as if nothing had happened', async () => {
    const dir = await quickFolder()
    await cp(original, dir, { recursive: true })
    for (const [plant] of Object.values(derived)) await plantIn(dir, plant)
    for (const [plant] of Object.values(ofIndex)) await plantIn(join(dir, 'view_indexes'), plant)
    expect((await runSettle(['check', '--dir', dir])).code).toBe(3)
    await expectRepaired(dir)
    const service = await createService({ dir, port: 0 })
    onTestFinished(() => service.close())
    const url = await service.listen()
    expect(await contentsOf(url, 'sample')).toEqual(contents)
    expect(await viewRows(url)).toBe(rows)
    await send(url, 'PUT', 'sample/after', { n: 3 })
    await service.close()
    expect(await runSettle(['check', '--dir', dir])).toMatchObject({ code: 0 })
  })

  it.each(Object.entries(lost))('finds %s, and reports that it cannot be repaired', async (_, [plant, message]) => {
    const dir = await damaged(plant)
    const { code, out } = await runSettle(['check', '--dir', dir])
    expect([code, out.toString()]).toEqual([3, expect.stringMatching(message)])
    expect(out.toString()).toMatch(/It cannot be repaired/)
    expect((await runSettle(['check', '--dir', dir, '--repair'])).code).toBe(3)
  })

  it('finds every missing row, and every changed byte except inside texts', async () => {
    const dir = await quickFolder()
    await cp(original, dir, { recursive: true })
    const engine = await LmdbEngine.open({ folder: dir })
    const store = await engine.open('sample')
    const rowsAt: (readonly [Buffer, Buffer])[] = []
    using first = store.snapshot()
    for await (const page of pagesOf(first, { from: Buffer.of(0) })) {
      for (let row = 0; row < page.length; row++)
        rowsAt.push([Buffer.from(page.key(row)), Buffer.from(page.value(row))])
    }
    first.release()
    const kinds = Map.groupBy(rowsAt, ([key]) => key.toString('latin1', 0, 1))
    const sampled = [...kinds.values()].flatMap((some) => some.filter((_, i) => i % Math.ceil(some.length / 4) === 0))
    const faultsWith = async (changes: Changes): Promise<number> => {
      await store.commit(changes)
      let faults = 0
      using snapshot = store.snapshot()
      await checkFaults(snapshot, { fault: () => faults++, progress: () => {} })
      return faults
    }
    const unseen: string[] = []
    for (const [key, value] of sampled) {
      if ((await faultsWith({ deletes: [key] })) === 0) unseen.push(`without ${key.toString('latin1')}`)
      for (const at of new Set([0, value.length >> 1, value.length - 1])) {
        if (at < 0 || value.length === 0) continue
        if ((await faultsWith({ puts: [[key, flipped(value, at)]] })) === 0)
          unseen.push(`${key.toString('latin1', 0, 1)} ${at} of ${value.length}`)
      }
      await store.commit({ puts: [[key, value]] })
    }
    await engine.close()
    // Local documents, the security object, what was purged, and hashes of old revisions are nowhere else.
    expect(unseen.filter((each) => !/^(?:without )?(?:l|m|p|t )/.test(each))).toEqual([])
    expect(unseen.length).toBeLessThan(sampled.length)
  })

  it('finds damaged pages', async () => {
    const dir = await quickFolder()
    await cp(original, dir, { recursive: true })
    const file = (await readdir(dir)).find((name) => /^sample\.\d+\.mdb$/.test(name)) ?? ''
    const bytes = await readFile(join(dir, file))
    let found = 0
    for (let page = 2; page < 12; page++) {
      const copy = Buffer.from(bytes)
      copy.fill(0xff, page * LMDB_PAGE_BYTES, page * LMDB_PAGE_BYTES + 64)
      await writeFile(join(dir, file), copy)
      const { code, out } = await runSettle(['check', '--dir', dir])
      if (code === 3) found++
      if (code === 3) expect(out.toString()).toMatch(/^sample: .*sample\.\d+\.mdb/m)
    }
    // Pages that are free may hold anything.
    expect(found).toBeGreaterThan(0)
  })

  it('reads snapshots of a running server, and leaves repairs for when it is stopped', async () => {
    const dir = await damaged(derived['a change row that is missing']![0])
    const service = await createService({ dir, port: 0 })
    onTestFinished(() => service.close())
    const url = await service.listen()
    // In another process: within one a file is open once.
    const { code, out, err } = await startSettle(['check', '--dir', dir]).ended
    expect([code, out.toString()]).toEqual([3, expect.stringMatching(/Its change \d+ is missing/)])
    expect(err).toMatch(/A server uses the folder/)
    expect(await runSettle(['check', '--dir', dir, '--repair'])).toMatchObject({
      code: 1,
      err: expect.stringMatching(/Stop it before a repair/),
    })
    expect((await send(url, 'GET', 'sample')).doc_count).toBe(304)
    await send(url, 'PUT', 'sample/after', {})
  })

  it('reports no faults of files that a running server compacts or deletes meanwhile', async () => {
    const dir = await quickFolder()
    const service = await createService({ dir, port: 0 })
    onTestFinished(() => service.close())
    const url = await service.listen()
    let isDone = false
    const churn = async () => {
      for (let i = 0; !isDone; i++) {
        const name = `db-${i % 4}`
        await fetch(`${url}${name}`, { method: 'PUT' })
        await send(url, 'POST', `${name}/_bulk_docs`, { docs: [{}, {}, {}] })
        if (i % 3 === 0) await send(url, 'POST', `${name}/_compact`)
        if (i % 3 === 1) await send(url, 'DELETE', name)
      }
    }
    const churning = churn()
    try {
      for (let round = 0; round < 3; round++) {
        const { code, out, err } = await startSettle(['check', '--dir', dir]).ended
        expect([code, out.toString(), err]).toEqual([0, '', expect.anything()])
      }
    } finally {
      isDone = true
      await churning
    }
  })

  it('reports wrong arguments', async () => {
    const empty = await quickFolder()
    expect(await runSettle(['check', '--dir', empty])).toMatchObject({
      code: 1,
      err: expect.stringMatching(/is not a data folder/),
    })
    expect(await runSettle(['check', '--dir', original, '--db', 'other'])).toMatchObject({
      code: 1,
      err: expect.stringMatching(/has no database other/),
    })
    expect((await runSettle(['check', '--help'])).out.toString()).toMatch(/^Usage: settle check/)
  })
})
