/**
 * Throws random requests at a server and says what it should not have done. Requests come in rounds, each with a database
 * and a seed of its own, so that a round can be repeated alone: SETTLE_SEED and SETTLE_FUZZ_ROUND.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parentFolder } from '../support/parent-folder.ts'
import { ADMIN, type DigestOptions, databaseDigest } from './database-digest.ts'
import { exchange, type Outcome } from './exchange.ts'
import { FuzzRandom } from './random-json.ts'
import { type FuzzCase, type Round, randomCase } from './random-request.ts'
import { parseReplies, type WireReply } from './replies.ts'

export interface FuzzOptions {
  readonly requests: number
  /** The bug that the server has: see `planted-front.ts`. */
  readonly plant?: string
  readonly seed?: number
  /** How many findings end the run. */
  readonly findingsLimit?: number
  /** How long a server may take to close what its client has ended. */
  readonly hangMs?: number
  /** One in so many comparisons is of everything that the database holds, the others of what is cheap to ask for. */
  readonly digestEverythingEvery?: number
}

/** What is wrong, and the requests of the round up to it. */
export interface Finding {
  readonly what: string
  readonly round: number
  readonly bytes: string
}

export interface FuzzReport {
  readonly seed: number
  readonly requests: number
  readonly byStatus: ReadonlyMap<number, number>
  readonly findings: readonly Finding[]
  readonly grownBytes: number
}

type Depth = DigestOptions['depth']

const ROUND_REQUESTS = 250
const LANES = 10
const FINDINGS_LIMIT = 20
/** On the busiest machine. */
const HANG_MS = 25_000
/** A digest that is the same so many times, with a pause between, is that of a server that is done. */
const SETTLED_TIMES = 3
const SETTLED_MS = 10
/** Caches fill up in the first part of the run; what comes after is growth. */
const WARM_UP = 0.3

export async function fuzz(options: FuzzOptions): Promise<FuzzReport> {
  const { plant = '' } = options
  const folder = await mkdtemp(join(await parentFolder(), 'settle-test-'))
  const script = join(import.meta.dirname, 'fuzzed-process.ts')
  const child = fork(script, [folder, plant], { execArgv: ['--expose-gc'], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  try {
    const [{ url }] = (await once(child, 'message')) as [{ url: string }]
    return await new Fuzzer(child, new URL(url), options).run()
  } finally {
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit')
      if (child.connected) child.disconnect()
      await exited
    }
    await rm(folder, { recursive: true, force: true })
  }
}

class Fuzzer {
  readonly #child: ChildProcess
  readonly #url: URL
  readonly #rounds: readonly number[]
  readonly #seed: number
  readonly #findingsLimit: number
  readonly #hangMs: number
  readonly #digestEverythingEvery: number
  readonly #findings: Finding[] = []
  readonly #byStatus = new Map<number, number>()
  #requests = 0
  readonly #closed: Promise<unknown>
  #complaints = ''

  constructor(child: ChildProcess, url: URL, options: FuzzOptions) {
    const { requests, seed, findingsLimit, hangMs, digestEverythingEvery = 1 } = options
    this.#child = child
    this.#closed = once(child, 'close')
    this.#url = url
    this.#seed = new FuzzRandom(seed).seed
    this.#findingsLimit = findingsLimit ?? FINDINGS_LIMIT
    this.#hangMs = hangMs ?? HANG_MS
    this.#digestEverythingEvery = digestEverythingEvery
    const only = process.env.SETTLE_FUZZ_ROUND
    const count = Math.ceil(requests / ROUND_REQUESTS)
    this.#rounds = only === undefined ? Array.from({ length: count }, (_, i) => i) : [Number(only)]
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#complaints += text
    })
  }

  async run(): Promise<FuzzReport> {
    await this.#prepare('fuzz-source')
    const warmUp = Math.ceil(this.#rounds.length * WARM_UP)
    await this.#runRounds(this.#rounds.slice(0, warmUp))
    const before = await this.#measure()
    await this.#runRounds(this.#rounds.slice(warmUp))
    const after = await this.#measure()
    if (after && before && after.sockets > before.sockets + LANES) {
      this.#find(`There are ${after.sockets} sockets where there were ${before.sockets}.`, -1, [])
    }
    return {
      seed: this.#seed,
      requests: this.#requests,
      byStatus: this.#byStatus,
      findings: this.#findings,
      grownBytes: before && after ? after.heldBytes - before.heldBytes : 0,
    }
  }

  /** The rounds that change settings are all in the first lane. */
  async #runRounds(rounds: readonly number[]): Promise<void> {
    const lanes = Array.from({ length: LANES }, (_, lane) => rounds.filter((round) => round % LANES === lane))
    await Promise.all(
      lanes.map(async (lane) => {
        for (const round of lane) if (!(await this.#runRound(round))) return
      }),
    )
  }

  /** False where there is no use in going on. */
  async #runRound(number: number): Promise<boolean> {
    const random = new FuzzRandom((this.#seed + number * 0x9e3779b1) | 0)
    const round: Round = { database: databaseName(number), changesSettings: number % LANES === 0 }
    const history: FuzzCase[] = []
    try {
      await this.#prepare(round.database)
      let digest: string | undefined
      let depth: Depth = 'everything'
      let digests = 0
      for (let i = 0; i < ROUND_REQUESTS; i++) {
        if (this.#findings.length >= this.#findingsLimit) return false
        const fuzzCase = randomCase(random, round)
        history.push(fuzzCase)
        this.#requests++
        // Reading requests are compared now and then.
        const isCompared = !isReading(fuzzCase) || random.chance(0.1)
        if (isCompared && digest === undefined) {
          depth = digests++ % this.#digestEverythingEvery === 0 ? 'everything' : 'cheap'
          digest = await this.#digestOfExisting(round, depth)
          // What a client has sent before it broke off may be worked on still.
          if (history.at(-2)?.manner.kind === 'broken off') digest = await this.#settledDigest(digest, round, depth)
        }
        const outcome = await exchange(this.#url, fuzzCase.bytes, fuzzCase.manner, {
          mustReply: fuzzCase.isWhole && !fuzzCase.isFeed,
          hangMs: this.#hangMs,
        })
        const wrong = this.#judge(fuzzCase, outcome)
        if (wrong !== undefined) this.#find(wrong, number, history)
        if (round.changesSettings) await this.#restoreSettings(fuzzCase, outcome)
        if (digest === undefined || !mustChangeNothing(fuzzCase, outcome)) digest = undefined
        else if (isCompared) {
          const now = await this.#digest(round, depth)
          if (now !== digest) {
            this.#find(`A refused request changed the database: ${difference(digest, now)}`, number, history)
          }
          digest = now
        }
      }
      await this.#admin('DELETE', `/${round.database}`)
      return true
    } catch (error) {
      // A server that nobody reaches has ended, or is about to.
      if (error instanceof Error && Reflect.get(error, 'code') === 'ECONNREFUSED') await this.#closed
      const how = this.#child.exitCode ?? this.#child.signalCode
      this.#find(how === null ? `${error}` : `The server has ended (${how}): ${this.#complaints}`, number, history)
      return false
    }
  }

  /** What is wrong with the reply; undefined where nothing is. */
  #judge(fuzzCase: FuzzCase, { received, isClosed }: Outcome): string | undefined {
    if (!isClosed) return 'The connection was left open after its client had ended.'
    if (fuzzCase.manner.kind === 'broken off') return undefined
    let replies: WireReply[]
    try {
      replies = parseReplies(received, fuzzCase.methods)
    } catch (error) {
      // Where a slip made another method of it, only the first line can be trusted.
      if (!fuzzCase.isWhole && /^HTTP\/1\.1 [1-4]\d\d /.test(received)) return undefined
      return `${error} ${JSON.stringify(received.slice(0, 500))}`
    }
    for (const { status } of replies) this.#byStatus.set(status, (this.#byStatus.get(status) ?? 0) + 1)
    if (fuzzCase.isWhole && replies.length === 0) return 'There was no reply.'
    for (const [i, reply] of replies.entries()) {
      // Where a slip moved the end of a request, the reply may be to any of them.
      const places = fuzzCase.isWhole ? [i] : [i, ...fuzzCase.paths.keys()]
      const wrongs = places.map((at) => wrongReply(reply, fuzzCase.paths[at] ?? '', fuzzCase.methods[at] ?? ''))
      if (wrongs.every((wrong) => wrong !== undefined)) return wrongs[0]
    }
    return undefined
  }

  #find(what: string, round: number, history: readonly FuzzCase[]): void {
    const bytes = history.at(-1)?.bytes.toString('latin1') ?? ''
    this.#findings.push({ what, round, bytes: JSON.stringify(bytes.slice(0, 3_000)) })
    if (process.env.SETTLE_FUZZ_TRACE)
      console.error(
        this.#seed,
        round,
        history.length,
        what,
        JSON.stringify(history.at(-1)?.manner).slice(0, 200),
        JSON.stringify(bytes.slice(0, 1_500)),
      )
  }

  async #digest({ database, changesSettings }: Round, depth: Depth): Promise<string> {
    return databaseDigest(this.#url, database, { depth, places: changesSettings ? ['/_config'] : [] })
  }

  /** The digest when it has not changed for a while. */
  async #settledDigest(first: string, round: Round, depth: Depth): Promise<string> {
    let digest = first
    for (let same = 0; same < SETTLED_TIMES; same++) {
      await pause(SETTLED_MS)
      const now = await this.#digest(round, depth)
      if (now !== digest) same = 0
      digest = now
    }
    return digest
  }

  /** A database that was deleted is made anew. */
  async #digestOfExisting(round: Round, depth: Depth): Promise<string> {
    const digest = await this.#digest(round, depth)
    if (!digest.startsWith('404 {"error":"not_found","reason":"no_db_file"}')) return digest
    await this.#prepare(round.database)
    return this.#digest(round, depth)
  }

  async #restoreSettings({ paths, methods }: FuzzCase, { received }: Outcome): Promise<void> {
    const isChanged = paths.some((path, i) => /^\/_(?:config|node)/.test(path) && /PUT|DELETE/.test(methods[i] ?? ''))
    if (!isChanged || !/^HTTP\/1\.1 2/m.test(received)) return
    for (const setting of SETTINGS) await this.#admin('DELETE', `/_config/${setting}`)
  }

  async #prepare(database: string): Promise<void> {
    await this.#admin('PUT', `/${database}`)
    await this.#admin('POST', `/${database}/_bulk_docs`, { new_edits: false, docs: SAMPLE })
    await this.#admin('PUT', `/${database}/_local/l`, { a: 1 })
    await this.#admin('PUT', `/${database}/_security`, { members: { names: ['member'], roles: [] } })
  }

  async #admin(method: string, path: string, body?: unknown): Promise<void> {
    const text = body === undefined ? '' : JSON.stringify(body)
    const lines = [
      `${method} ${path} HTTP/1.1`,
      'Host: x',
      ADMIN,
      'Connection: close',
      'Content-Type: application/json',
    ]
    const bytes = Buffer.from(`${lines.join('\r\n')}\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`)
    const { received } = await exchange(this.#url, bytes, { kind: 'until closed' })
    if (/^HTTP\/1\.1 5/.test(received)) throw new Error(`${method} ${path}: ${received}`)
  }

  async #measure(): Promise<{ heldBytes: number; sockets: number } | undefined> {
    const child = this.#child
    if (!child.connected || child.exitCode !== null || child.signalCode !== null) return undefined
    const { promise, resolve } = Promise.withResolvers<{ heldBytes: number; sockets: number } | undefined>()
    child.once('message', (measured: { heldBytes: number; sockets: number }) => resolve(measured))
    // One that crashes does not answer.
    child.once('exit', () => resolve(undefined))
    child.send('measure', (error) => error && resolve(undefined))
    return promise
  }
}

/** Letters that no slip makes of each other. */
function databaseName(round: number): string {
  const letters = [...String(round)].map((digit) => String.fromCharCode(0x61 + Number(digit)))
  return `fuzz-${letters.join('')}`
}

function isReading({ methods, bytes, isWhole }: FuzzCase): boolean {
  if (!isWhole || bytes.includes('X-HTTP-Method-Override')) return false
  return methods.every((method) => method === 'GET' || method === 'HEAD')
}

function mustChangeNothing(fuzzCase: FuzzCase, { received }: Outcome): boolean {
  if (isReading(fuzzCase) || (fuzzCase.isCutShort && received === '')) return true
  const statuses = [...received.matchAll(/^HTTP\/1\.1 ([2-5]\d\d) /gm)].map(([, status]) => Number(status))
  return statuses.length >= fuzzCase.methods.length && statuses.every((status) => status >= 400)
}

/** Errors with status 500 that the interface names, by where they belong. Design documents are random too. */
const OF_FUNCTIONS = new Set([
  ...[
    'compilation_error',
    'render_error',
    'invalid_value',
    'map_runtime_error',
    'reduce_overflow_error',
    'reduce_runtime_error',
  ],
  ...['os_process_error', 'unknown_query_language', 'external_response_error', 'insecure_rewrite_rule', 'error'],
])
const RUNS_FUNCTIONS = /_design|_temp_view|_changes|_partition/
const OF_REPLICATION = new Set([
  'bad_request',
  'invalid_selector',
  'invalid_field_name',
  'invalid_operator',
  'bad_arg',
  'db_not_found',
  'unauthorized',
  'error',
  'checkpoint_commit_failure',
  'changes_reader_died',
])

function isNamed(status: number, error: string, path: string, method: string): boolean {
  if (status === 501) return error === 'not_implemented'
  if (status === 503) return error === 'required index service unavailable'
  if (error === 'doc_validation' || error === 'unknown_transfer_encoding') return true
  // Writes run validation functions.
  if (error === 'compilation_error' || error === 'unknown_query_language')
    return method !== 'GET' || RUNS_FUNCTIONS.test(decoded(path))
  if (/_replicate/.test(decoded(path))) return OF_REPLICATION.has(error)
  if (/_index/.test(path)) return error === 'error_saving_ddoc' || error === 'invalid_list_index_params'
  return OF_FUNCTIONS.has(error) && RUNS_FUNCTIONS.test(decoded(path))
}

function decoded(path: string): string {
  return path.replace(/%[0-7][0-9a-f]/gi, (code) => String.fromCharCode(Number.parseInt(code.slice(1), 16)))
}

function wrongReply({ status, headers, body }: WireReply, path: string, method: string): string | undefined {
  if (status < 400 || body === undefined || body === '') {
    return status >= 500 && method !== 'HEAD' ? `A ${status} without a cause.` : undefined
  }
  // Functions may answer with any status, in any form.
  if (status < 500 && !/json|text\/plain/.test(headers.get('content-type') ?? '')) return undefined
  // Pages for people; 503 where the interface has not been built.
  if (/_utils/.test(decoded(path))) return undefined
  const told = `${status} ${body.slice(0, 300)}`
  let value: { error?: unknown; reason?: unknown }
  try {
    value = JSON.parse(body)
  } catch {
    return RUNS_FUNCTIONS.test(decoded(path)) ? undefined : `The error is not JSON: ${told}`
  }
  // Of a bulk request that is refused as a whole, every document has its own.
  if (status === 417 && Array.isArray(value)) return undefined
  if (typeof value?.error !== 'string') return `The error has no name: ${told}`
  return status >= 500 && !isNamed(status, value.error, path, method)
    ? `An error that nothing names: ${told}`
    : undefined
}

/** Where two texts begin to differ. */
function difference(before: string, after: string): string {
  let at = 0
  while (at < before.length && before[at] === after[at]) at++
  return `${JSON.stringify(before.slice(Math.max(0, at - 60), at + 120))} became ${JSON.stringify(after.slice(Math.max(0, at - 60), at + 120))}`
}

const SETTINGS = [
  'fuzz/a',
  'fuzz/%FF',
  'log/level',
  'uuids/algorithm',
  'query_server_config/reduce_limit',
  'httpd/allow_jsonp',
]

const SAMPLE = [
  { _id: 'doc', _rev: '1-a', a: 1, type: 'good' },
  { _id: 'torn', _rev: '1-a', a: 2 },
  { _id: 'torn', _rev: '1-b', a: 3 },
  { _id: 'gone', _rev: '1-a', _deleted: true },
  { _id: 'p:1', _rev: '1-a', n: 5 },
  {
    _id: 'files',
    _rev: '1-a',
    _attachments: {
      'a.txt': { content_type: 'text/plain', data: 'YWJj' },
      b: { content_type: 'image/png', data: 'AAEC' },
    },
  },
  {
    _id: '_design/d',
    _rev: '1-a',
    views: {
      v: { map: 'function (doc) { emit(doc._id, doc.a) }' },
      reduced: { map: 'function (doc) { emit(doc.type, 1) }', reduce: '_sum' },
    },
    shows: {
      s: 'function (doc, req) { return JSON.stringify([doc, req.query]) }',
      bad: 'function () { return nosuch }',
    },
    lists: {
      l: 'function (head, req) { var row; while ((row = getRow())) send(toJSON(row)) }',
      bad: 'function () { getRow(); throw 1 }',
    },
    updates: {
      u: 'function (doc, req) { doc = doc || {_id: req.id || req.uuid}; doc.u = req.body.length; return [doc, "ok"] }',
      bad: 'function (doc, req) { return [{_id: "written"}, {code: 409, json: nosuch}] }',
    },
    filters: { f: 'function (doc, req) { return doc.a > 1 }' },
    rewrites: [
      { from: 'a', to: '_view/v' },
      { from: 'b/:x', to: '../../:x' },
      { from: 'up', to: '../../../../_all_dbs' },
      { from: 'loop', to: '_rewrite/loop' },
    ],
    validate_doc_update: 'function (doc) { if (doc.type === "bad") throw {forbidden: "bad"} }',
  },
]
