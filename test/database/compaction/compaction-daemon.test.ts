import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { SettingChange } from '../../../src/config/configuration.ts'
import { defaultSettings } from '../../../src/config/setting-sources.ts'
import { CompactionDaemon } from '../../../src/database/compaction/compaction-daemon.ts'
import { parseCompactionRule } from '../../../src/database/compaction/compaction-rules.ts'
import type { Log } from '../../../src/runtime/log/log.ts'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { memoryDatabase, put, written } from '../test-database.ts'

describe('a compaction rule', () => {
  it('names its conditions', () => {
    const text =
      '[{db_fragmentation, "70%"}, {view_fragmentation, "60%"}, {from, "23:00"}, {to, "04:30"}, ' +
      '{strict_window, true}, {parallel_view_compaction, true}]'
    expect(parseCompactionRule(text)).toEqual({
      fragmentationPercent: 70,
      indexFragmentationPercent: 60,
      garbagePercent: 9,
      areIndexesParallel: true,
      window: { fromMinute: 23 * 60, toMinute: 4 * 60 + 30 },
      isWindowStrict: true,
    })
    expect(parseCompactionRule('[]')).toEqual({
      fragmentationPercent: 0,
      indexFragmentationPercent: 0,
      garbagePercent: 9,
      areIndexesParallel: false,
      window: undefined,
      isWindowStrict: false,
    })
  })

  it.each([
    'nonsense [',
    '{db_fragmentation, "70%"}',
    '[db_fragmentation]',
    '[{db_fragmentation}]',
    '[{db_fragmentation, "much"}]',
    '[{db_fragmentation, "101%"}]',
    '[{from, "23:00"}]',
    '[{to, "23:00"}]',
    '[{from, "24:00"}, {to, "04:00"}]',
    '[{from, "23:60"}, {to, "04:00"}]',
    '[{strict_window, maybe}]',
    '[{db_fragmentation, "70%"}, {unknown, true}]',
    '[{constructor, true}]',
  ])('is not %s', (text) => {
    expect(parseCompactionRule(text)).toBeUndefined()
  })
})

describe('the compaction daemon', () => {
  it('compacts what is as fragmented as the rule says, and nothing else', async () => {
    const { daemon, databases } = start({ _default: '[{db_fragmentation, "70%"}]' })
    databases.add('due', { fileBytes: 1_000_000, dataBytes: 300_000 })
    databases.add('fine', { fileBytes: 1_000_000, dataBytes: 300_001 })
    databases.add('small', { fileBytes: 131_071, dataBytes: 1 })
    databases.add('smallest that counts', { fileBytes: 131_072, dataBytes: 1 })
    databases.add('compacting', { fileBytes: 1_000_000, dataBytes: 1, isCompacting: true })
    await daemon.check()
    expect(databases.compacted()).toEqual(['due', 'smallest that counts'])
  })

  it('prefers the rule of the database to the one of all', async () => {
    const { daemon, databases } = start({ _default: '[{db_fragmentation, "70%"}]', own: '[{db_fragmentation, "95%"}]' })
    databases.add('own', { fileBytes: 1_000_000, dataBytes: 100_000 })
    databases.add('other', { fileBytes: 1_000_000, dataBytes: 100_000 })
    await daemon.check()
    expect(databases.compacted()).toEqual(['other'])
  })

  it('does not open unused databases for the default rule', async () => {
    const { daemon, databases } = start({
      _default: '[{db_fragmentation, "70%"}]',
      named: '[{db_fragmentation, "70%"}]',
    })
    for (const name of ['used', 'unused', 'named']) databases.add(name, FRAGMENTED)
    databases.open = new Set(['used'])
    await daemon.check()
    expect(databases.compacted()).toEqual(['used', 'named'])
  })

  it('leaves databases without a rule alone', async () => {
    const { daemon, databases } = start({ own: '[{db_fragmentation, "70%"}]' })
    databases.add('own', FRAGMENTED)
    databases.add('other', FRAGMENTED)
    await daemon.check()
    expect(databases.compacted()).toEqual(['own'])
  })

  it.each([
    ['01:00', '05:00', '00:59', false],
    ['01:00', '05:00', '01:00', true],
    ['01:00', '05:00', '04:59', true],
    ['01:00', '05:00', '05:00', false],
    ['23:00', '04:00', '22:59', false],
    ['23:00', '04:00', '23:00', true],
    ['23:00', '04:00', '00:00', true],
    ['23:00', '04:00', '03:59', true],
    ['23:00', '04:00', '04:00', false],
    ['12:00', '12:00', '03:00', true],
  ])('in the window from %s to %s, at %s: %s', async (from, to, time, expected) => {
    const { daemon, databases, setTime } = start({ _default: `[{from, "${from}"}, {to, "${to}"}]` })
    databases.add('a', FRAGMENTED)
    setTime(time)
    await daemon.check()
    expect(databases.compacted()).toEqual(expected ? ['a'] : [])
  })

  it('warns when there is less room than twice the data', async () => {
    const { daemon, databases, lines, disk } = start({ _default: '[{db_fragmentation, "10%"}]' })
    databases.add('a', { fileBytes: 1_000_000, dataBytes: 200_000 })
    disk.freeBytes = 399_999
    await daemon.check()
    expect(databases.compacted()).toEqual([])
    expect(lines).toEqual([expect.stringMatching(/^warn .*too little disk space/)])
    disk.freeBytes = 400_000
    await daemon.check()
    expect(databases.compacted()).toEqual(['a'])
  })

  it('ignores a malformed rule with a line in the log', async () => {
    const { daemon, databases, lines, settings } = start({ _default: '[{from, "23:00"}]' })
    databases.add('a', FRAGMENTED)
    await daemon.check()
    expect(databases.compacted()).toEqual([])
    expect(lines).toEqual([expect.stringMatching(/^error .*malformed.*_default/)])
    settings.set('compactions', 'a', '[{unknown, 1}]')
    expect(lines).toHaveLength(2)
    expect(lines[1]).toMatch(/"database":"a"/)
  })

  it('compacts one at a time', async () => {
    const { daemon, databases } = start(ALWAYS)
    const first = databases.add('a', FRAGMENTED)
    const second = databases.add('b', FRAGMENTED)
    first.hold()
    const round = daemon.check()
    await expect.poll(() => first.isCompacting).toBe(true)
    expect(second.compactions).toBe(0)
    first.finish()
    await round
    expect(databases.compacted()).toEqual(['a', 'b'])
  })

  it('does not compact a file that has hardly changed since the last time', async () => {
    const { daemon, databases } = start(ALWAYS)
    const database = databases.add('a', FRAGMENTED)
    await daemon.check()
    expect(database.compactions).toBe(1)
    database.sizes = { fileBytes: 1_050_000, dataBytes: 99_000 }
    await daemon.check()
    expect(database.compactions).toBe(1)
    database.sizes = { fileBytes: 1_200_000, dataBytes: 100_000 }
    await daemon.check()
    expect(database.compactions).toBe(2)
    database.sizes = { fileBytes: 1_200_000, dataBytes: 50_000 }
    await daemon.check()
    expect(database.compactions).toBe(3)
  })

  it('distinguishes garbage from space that many small documents take', async () => {
    const { daemon, databases } = start({ _default: '[{db_fragmentation, "70%"}, {min_garbage, "50%"}]' })
    const database = databases.add('a', { fileBytes: 1_000_000, dataBytes: 100_000 })
    await daemon.check()
    expect(database.compactions).toBe(1)
    // Ten times as many documents, and no old revisions.
    database.sizes = { fileBytes: 10_000_000, dataBytes: 1_000_000 }
    await daemon.check()
    expect(database.compactions).toBe(1)
    database.sizes = { fileBytes: 19_000_000, dataBytes: 1_000_000 }
    await daemon.check()
    expect(database.compactions).toBe(1)
    database.sizes = { fileBytes: 21_000_000, dataBytes: 1_000_000 }
    await daemon.check()
    expect(database.compactions).toBe(2)
  })

  it('has a rule for all databases unless an operator removes it', async () => {
    const defaults = await defaultSettings()
    expect(parseCompactionRule(defaults.get('compactions')?.get('_default') ?? '')).toEqual({
      fragmentationPercent: 70,
      indexFragmentationPercent: 70,
      garbagePercent: 50,
      areIndexesParallel: false,
      window: undefined,
      isWindowStrict: false,
    })
  })

  it('continues with the others when one fails', async () => {
    const { daemon, databases, lines } = start(ALWAYS)
    databases.add('a', FRAGMENTED).information = () => Promise.reject(new Error('broken'))
    databases.add('b', FRAGMENTED)
    await daemon.check()
    expect(databases.compacted()).toEqual(['b'])
    expect(lines[0]).toMatch(/^error .*broken/)
  })

  it.each([
    ['true', true],
    ['false', false],
  ])('at the end of the window, with strict_window %s, gives up: %s', async (strict, expected) => {
    vi.useFakeTimers()
    const rule = `[{from, "23:00"}, {to, "04:00"}, {strict_window, ${strict}}]`
    const { daemon, databases, setTime } = start({ _default: rule })
    const database = databases.add('a', FRAGMENTED)
    database.hold()
    setTime('23:30')
    const round = daemon.check()
    await vi.advanceTimersByTimeAsync(4.5 * 3_600_000 - 1)
    expect(database).toMatchObject({ isCompacting: true, cancellations: 0 })
    await vi.advanceTimersByTimeAsync(1)
    expect(database).toMatchObject({ isCompacting: !expected, cancellations: expected ? 1 : 0 })
    database.finish()
    await round
  })

  it('checks at every interval, and follows the configuration', async () => {
    vi.useFakeTimers()
    const { databases, settings } = start({})
    const database = databases.add('a', FRAGMENTED)
    const grow = () => {
      database.sizes = { ...database.sizes, fileBytes: database.sizes.fileBytes * 2 }
    }
    await vi.advanceTimersByTimeAsync(3_600_000)
    expect(database.compactions).toBe(0)
    settings.set('compactions', '_default', '[{db_fragmentation, "50%"}]')
    await vi.advanceTimersByTimeAsync(1)
    expect(database.compactions).toBe(1)
    grow()
    await vi.advanceTimersByTimeAsync(299_000)
    expect(database.compactions).toBe(1)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(database.compactions).toBe(2)
    grow()
    settings.set('compaction_daemon', 'check_interval', '5')
    await vi.advanceTimersByTimeAsync(5_000)
    expect(database.compactions).toBe(3)
    grow()
    settings.delete('compactions', '_default')
    await vi.advanceTimersByTimeAsync(3_600_000)
    expect(database.compactions).toBe(3)
  })

  it('compacts indexes by their own share, whether their database is due or not', async () => {
    const { daemon, databases } = start({ _default: '[{db_fragmentation, "95%"}, {view_fragmentation, "60%"}]' })
    databases.add('a', FRAGMENTED)
    const due = databases.addIndex('a', '_design/due', { fileBytes: 1_000_000, dataBytes: 400_000 })
    const fine = databases.addIndex('a', '_design/fine', { fileBytes: 1_000_000, dataBytes: 400_001 })
    const updated = databases.addIndex('a', '_design/updated', { ...FRAGMENTED, isUpdating: true })
    await daemon.check()
    expect(databases.compacted()).toEqual([])
    expect([due, fine, updated].map(({ compactions }) => compactions)).toEqual([1, 0, 0])
  })

  it('checks the indexes of a database again when it has changed, or another one has its name', async () => {
    const { daemon, databases } = start({ _default: '[{db_fragmentation, "95%"}, {view_fragmentation, "60%"}]' })
    const sizes = { ...FRAGMENTED, updateSequence: 5 }
    const database = databases.add('a', sizes)
    await daemon.check()
    const first = databases.addIndex('a', '_design/first', FRAGMENTED)
    await daemon.check()
    expect(first.compactions).toBe(0)
    database.sizes = { ...sizes, updateSequence: 6 }
    await daemon.check()
    expect(first.compactions).toBe(1)
    databases.add('a', { ...sizes, updateSequence: 6 })
    const second = databases.addIndex('a', '_design/second', FRAGMENTED)
    await daemon.check()
    expect(second.compactions).toBe(1)
  })

  it.each([
    ['after their database', '', 0],
    ['beside their database', ', {parallel_view_compaction, true}', 1],
  ])('compacts indexes %s', async (_, parallel, expected) => {
    const { daemon, databases } = start({ _default: `[{db_fragmentation, "50%"}${parallel}]` })
    const database = databases.add('a', FRAGMENTED)
    const index = databases.addIndex('a', '_design/a', FRAGMENTED)
    database.hold()
    const round = daemon.check()
    await expect.poll(() => [database.isCompacting, index.compactions]).toEqual([true, expected])
    database.finish()
    await round
    expect(index.compactions).toBe(1)
  })

  it('gives up the compaction of an index at the end of a strict window', async () => {
    vi.useFakeTimers()
    const { daemon, databases, setTime } = start({
      _default: '[{db_fragmentation, "95%"}, {from, "01:00"}, {to, "05:00"}, {strict_window, true}]',
    })
    databases.add('a', FRAGMENTED)
    const index = databases.addIndex('a', '_design/a', FRAGMENTED)
    index.hold()
    setTime('04:59')
    const round = daemon.check()
    await vi.advanceTimersByTimeAsync(60_000)
    await round
    expect(index).toMatchObject({ compactions: 1, cancellations: 1 })
  })

  it('finishes its work when it is closed', async () => {
    vi.useFakeTimers()
    const { daemon, databases } = start(ALWAYS)
    const database = databases.add('a', FRAGMENTED)
    const next = databases.add('b', FRAGMENTED)
    database.hold()
    await vi.advanceTimersByTimeAsync(300_000)
    expect(database.isCompacting).toBe(true)
    await daemon.close()
    expect(database).toMatchObject({ isCompacting: false, cancellations: 1 })
    await vi.advanceTimersByTimeAsync(3_600_000)
    expect(next.compactions).toBe(0)
  })
})

describe('a compaction that is given up', () => {
  it('has ended when that resolves, and may be started again', async () => {
    const { database } = await memoryDatabase()
    let parent: string | undefined
    for (let i = 0; i < 5; i++) [parent] = await written(database.write([put('a', { i }, { parent })]))
    database.compact()
    await database.cancelCompaction()
    const before = await database.information()
    expect([before.isCompacting, before.compactedTo]).toEqual([false, undefined])
    database.compact()
    await database.compacted()
    const { fileBytes, dataBytes, compactedTo } = await database.information()
    expect(compactedTo?.dataBytes).toBe(dataBytes)
    // To remember the sizes takes a little more.
    expect(fileBytes - (compactedTo?.fileBytes ?? 0)).toBeLessThan(1000)
  })
})

describe('compactions over HTTP', () => {
  it('let a file shrink by itself', async () => {
    const service = await startService({ settings: { compaction_daemon: { check_interval: '1' } } })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    const db = await client.database()
    let rev = await db.save('doc', { text: 'x'.repeat(50_000) })
    for (let n = 0; n < 20; n++) rev = await db.save('doc', { _rev: rev, n, text: 'x'.repeat(50_000) })
    const { disk_size } = await db.info()
    const reply = await client.request('PUT', '/_config/compactions/_default', {
      body: JSON.stringify(ALWAYS._default),
    })
    expect(reply.status, reply.text).toBe(200)
    await expect.poll(async () => (await db.info()).disk_size).toBeLessThan(disk_size / 2)
    expect((await db.get('doc')).json).toMatchObject({ _rev: rev, n: 19 })
    // And again, at the next interval.
    const compacted = (await db.info()).disk_size
    for (let n = 0; n < 20; n++) rev = await db.save('doc', { _rev: rev, n, text: 'x'.repeat(50_000) })
    await expect.poll(async () => (await db.info()).disk_size).toBeLessThan(compacted * 2)
  })
})

describe('compactions of indexes over HTTP', () => {
  it('let the file of an index shrink by itself', async () => {
    const service = await startService({ settings: { compaction_daemon: { check_interval: '1' } } })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    const db = await client.database()
    const map = 'function (doc) { emit(doc.n, doc.text) }'
    await db.save('_design/all', { views: { all: { map } } })
    const view = '/_design/all/_view/all?limit=1'
    let rev: string | undefined
    for (let n = 0; n < 20; n++) {
      rev = await db.save('doc', { ...(rev && { _rev: rev }), n, text: 'x'.repeat(n === 19 ? 10 : 200_000) })
      expect((await client.request('GET', `/${db.name}${view}`)).status).toBe(200)
    }
    const size = async () => {
      const reply = await client.request('GET', `/${db.name}/_design/all/_info`)
      return reply.as<{ view_index: { disk_size: number } }>().view_index.disk_size
    }
    const before = await size()
    const rule = '[{db_fragmentation, "100%"}, {view_fragmentation, "50%"}]'
    await client.request('PUT', '/_config/compactions/_default', { body: JSON.stringify(rule) })
    await expect.poll(async () => await size()).toBeLessThan(before / 2)
    const reply = await client.request('GET', `/${db.name}${view}`)
    expect(reply.json).toMatchObject({ total_rows: 1, rows: [{ key: 19, value: 'xxxxxxxxxx' }] })
  })
})

const FRAGMENTED = { fileBytes: 1_000_000, dataBytes: 100_000 }
const ALWAYS = { _default: '[{db_fragmentation, "50%"}]' }

/** A daemon among things that a test can change, at noon. */
function start(rules: Record<string, string>) {
  onTestFinished(() => {
    vi.useRealTimers()
  })
  const settings = new FakeSettings(rules)
  const databases = new FakeDatabases()
  const disk = { freeBytes: Number.POSITIVE_INFINITY }
  const lines: string[] = []
  const line = (level: string) => (message: string, details?: object) =>
    void lines.push(`${level} ${message} ${JSON.stringify(details)}`)
  const log: Log = { debug() {}, info() {}, warn: line('warn'), error: line('error') }
  let nowMs = localTimeMs('12:00')
  const clock = { nowMs: () => nowMs, nowUs: () => nowMs * 1000 }
  const daemon = new CompactionDaemon({
    configuration: settings,
    databases,
    indexesOf: (database) => databases.indexesOf(database),
    clock,
    log,
    freeBytes: async () => disk.freeBytes,
  })
  onTestFinished(() => daemon.close())
  const setTime = (time: string) => {
    nowMs = localTimeMs(time)
  }
  return { daemon, settings, databases, disk, lines, setTime }
}

function localTimeMs(time: string): number {
  return new Date(`2026-06-15T${time}:00`).getTime()
}

class FakeSettings {
  readonly #sections = new Map<string, Map<string, string>>()
  #listener: (change: SettingChange) => void = () => {}

  constructor(rules: Record<string, string>) {
    this.#sections.set('compactions', new Map(Object.entries(rules)))
    this.#sections.set(
      'compaction_daemon',
      new Map([
        ['check_interval', '300'],
        ['min_file_size', '131072'],
      ]),
    )
  }

  section(name: string): ReadonlyMap<string, string> {
    return this.#sections.get(name) ?? new Map()
  }

  integer(section: string, key: string): number {
    return Number(this.section(section).get(key))
  }

  onChange(listener: (change: SettingChange) => void): () => void {
    this.#listener = listener
    return () => {
      this.#listener = () => {}
    }
  }

  set(section: string, key: string, value: string): void {
    this.#sections.get(section)?.set(key, value)
    this.#listener({ section, key, value })
  }

  delete(section: string, key: string): void {
    this.#sections.get(section)?.delete(key)
    this.#listener({ section, key, value: undefined })
  }
}

interface FakeSizes {
  readonly fileBytes: number
  readonly dataBytes: number
  readonly isUpdating?: boolean
  readonly updateSequence?: number
}

class FakeDatabases {
  readonly #databases = new Map<string, FakeDatabase>()
  readonly #indexes = new Map<string, FakeIndex[]>()
  /** All of them unless given. */
  open: ReadonlySet<string> | undefined

  isOpen(name: string): boolean {
    return this.open?.has(name) ?? true
  }

  addIndex(database: string, id: string, sizes: FakeSizes): FakeIndex {
    const index = new FakeIndex(id, sizes)
    this.#indexes.set(database, [...(this.#indexes.get(database) ?? []), index])
    return index
  }

  async indexesOf(database: string): Promise<readonly FakeIndex[]> {
    return this.#indexes.get(database) ?? []
  }

  add(name: string, { isCompacting = false, ...sizes }: FakeSizes & { readonly isCompacting?: boolean }): FakeDatabase {
    const database = new FakeDatabase(sizes, isCompacting)
    this.#databases.set(name, database)
    return database
  }

  /** The names of those that were. */
  compacted(): string[] {
    return [...this.#databases].filter(([, { compactions }]) => compactions > 0).map(([name]) => name)
  }

  async listReachable(): Promise<string[]> {
    return [...this.#databases.keys()]
  }

  has(name: string): boolean {
    return this.#databases.has(name)
  }

  async get(name: string): Promise<FakeDatabase> {
    const database = this.#databases.get(name)
    if (!database) throw new Error(`There is no database ${name}.`)
    return database
  }
}

/** Compacts in no time, unless it is held; its sizes are what the test says. */
class FakeDatabase {
  sizes: FakeSizes
  isCompacting: boolean
  compactions = 0
  cancellations = 0
  #compactedTo: FakeSizes | undefined
  #held = Promise.withResolvers<void>()

  constructor(sizes: FakeSizes, isCompacting: boolean) {
    this.sizes = sizes
    this.isCompacting = isCompacting
    this.#held.resolve()
  }

  hold(): void {
    this.#held = Promise.withResolvers()
  }

  finish(): void {
    this.isCompacting = false
    this.#compactedTo = this.sizes
    this.#held.resolve()
  }

  async information() {
    return { ...this.sizes, isCompacting: this.isCompacting, compactedTo: this.#compactedTo }
  }

  async compact(): Promise<void> {
    this.isCompacting = true
    this.compactions++
  }

  async compacted(): Promise<void> {
    await this.#held.promise
    this.finish()
  }

  async cancelCompaction(): Promise<void> {
    this.cancellations++
    this.isCompacting = false
    this.#held.resolve()
  }
}

class FakeIndex extends FakeDatabase {
  readonly id: string

  constructor(id: string, sizes: FakeSizes) {
    super(sizes, false)
    this.id = id
  }
}
