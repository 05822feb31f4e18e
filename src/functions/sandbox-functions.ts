/**
 * `Functions` for JavaScript: calls become frames for sandbox processes, and what comes back becomes what the server works
 * with. A call whose process was killed by somebody else is done again; one that brought it down itself is not.
 */
import { RequestError } from '../document/request-error.ts'
import type { Log } from '../runtime/log.ts'
import { type Frame, OPERATIONS, type Operation, PORTION_HEADER_BYTES, Reply, Request } from './frame.ts'
import { functionError, reasonText } from './function-error.ts'
import type { FunctionSettings } from './function-settings.ts'
import {
  type DesignProgram,
  type DocumentCall,
  type FunctionResponse,
  type Functions,
  type ListCall,
  type ListOutput,
  type ListRun,
  MAPPED_FIELDS,
  type MapProgram,
  type MappedBatch,
  type ReduceInput,
  type ReduceProgram,
  type Run,
  type UpdateResult,
  type ValidatedWrite,
} from './functions.ts'
import { SandboxPool } from './sandbox-pool.ts'
import { ProcessEnd, type SandboxProcess } from './sandbox-process.ts'

export interface SandboxOptions {
  readonly settings: () => FunctionSettings
  readonly log: Log
}

/** Something to run, as an isolate is made of it. */
interface SandboxProgram {
  readonly key: string
  /** JSON for the isolate. */
  inner(): string
  readonly collations?: readonly string[]
}

/** How often a call is begun anew when its process is killed from outside. */
const MOST_TRIES = 5
/** Isolates that a process keeps. */
const MOST_PROGRAMS = 20
/** What a call that is given up may take to end before its process is killed. */
const GRACE_MS = 100

export class SandboxFunctions implements Functions {
  readonly #settings: () => FunctionSettings
  readonly #pool: SandboxPool

  constructor({ settings, log }: SandboxOptions) {
    this.#settings = settings
    this.#pool = new SandboxPool({ log, limit: () => settings().processLimit })
  }

  async map(program: MapProgram, documents: readonly Uint8Array[], run: Run): Promise<MappedBatch> {
    const { key, library, maps } = program
    const sources = maps.map(({ source }) => JSON.stringify(source))
    const loaded: SandboxProgram = {
      key: `map\0${run.owner}\0${key}`,
      collations: maps.map(({ collation }) => collation),
      inner: () => `{"library":${library ?? 'null'},"maps":[${sources}]}`,
    }
    return mappedBatch(await this.#call(loaded, 'map', [portions(documents)], run))
  }

  reduce(program: ReduceProgram, groups: readonly (readonly ReduceInput[])[], run: Run): Promise<string[]> {
    const texts = groups.map(
      (rows) => `[${rows.map(({ key, id, value }) => `[[${key},${JSON.stringify(id)}],${value}]`)}]`,
    )
    return this.#reduce('reduce', program, texts, run)
  }

  rereduce(program: ReduceProgram, groups: readonly (readonly string[])[], run: Run): Promise<string[]> {
    return this.#reduce(
      'rereduce',
      program,
      groups.map((values) => `[${values}]`),
      run,
    )
  }

  async filter(
    design: DesignProgram,
    name: string,
    documents: readonly string[],
    request: string,
    run: Run,
  ): Promise<boolean[]> {
    const input = `[${JSON.stringify(name)},[${documents}],${request}]`
    return booleans(await this.#call(designProgram(design, run), 'filter', [Buffer.from(input)], run), documents.length)
  }

  async filterByView(design: DesignProgram, view: string, documents: readonly string[], run: Run): Promise<boolean[]> {
    const input = Buffer.from(`[${JSON.stringify(view)},[${documents}]]`)
    return booleans(await this.#call(designProgram(design, run), 'filterByView', [input], run), documents.length)
  }

  async validate(
    design: DesignProgram,
    writes: readonly ValidatedWrite[],
    run: Run,
  ): Promise<(RequestError | undefined)[]> {
    const calls = writes.map(
      ({ document, previous, user, security }) => `[${document},${previous ?? 'null'},${user},${security}]`,
    )
    const reply = await this.#call(designProgram(design, run), 'validate', [Buffer.from(`[${calls}]`)], run)
    return textParts(reply, writes.length).map(verdict)
  }

  async show(design: DesignProgram, name: string, call: DocumentCall, run: Run): Promise<FunctionResponse> {
    const reply = await this.#call(designProgram(design, run), 'show', [documentInput(name, call)], run)
    return responseIn(reply.toString())
  }

  async update(design: DesignProgram, name: string, call: DocumentCall, run: Run): Promise<UpdateResult> {
    const reply = await this.#call(designProgram(design, run), 'update', [documentInput(name, call)], run)
    const text = reply.toString()
    const end = text.indexOf(END_OF_PART)
    if (end < 0) throw broken()
    const document = text.slice(0, end)
    return { document: document === 'null' ? null : document, response: responseIn(text.slice(end + 1)) }
  }

  async list(design: DesignProgram, name: string, { head, request }: ListCall, run: Run): Promise<ListRun> {
    const input = Buffer.from(`[${JSON.stringify(name)},${head},${request}]`)
    const program = designProgram(design, run)
    const sandbox = await this.#pool.take(run, program.key)
    const session = new ListSession(sandbox, this.#pool, () => this.#limits(), run.signal)
    try {
      const number = this.#load(sandbox, program)
      await session.begin(number, input)
      return session
    } catch (error) {
      session.abandon()
      run.signal?.throwIfAborted()
      throw error
    }
  }

  close(): Promise<void> {
    return this.#pool.close()
  }

  async #reduce(
    operation: 'reduce' | 'rereduce',
    { source }: ReduceProgram,
    groups: readonly string[],
    run: Run,
  ): Promise<string[]> {
    if (source === '') throw new RequestError(404, 'not_found', 'missing function')
    const sourceText = JSON.stringify(source)
    const program = { key: `reduce\0${run.owner}\0${source}`, inner: () => `{"reduce":${sourceText}}` }
    const reply = await this.#call(program, operation, [Buffer.from(`[${groups}]`)], run)
    const results = textParts(reply, groups.length)
    if (this.#settings().reduceLimit) {
      // As long as the command that would carry the input: its name, the sources, the input.
      const before = `["${operation}",[${sourceText}],]`.length
      for (const [index, result] of results.entries()) checkShrinking(result, before + (groups[index]?.length ?? 0))
    }
    return results
  }

  async #call(program: SandboxProgram, operation: Operation, input: readonly Uint8Array[], run: Run): Promise<Buffer> {
    for (let tries = 1; ; tries++) {
      const sandbox = await this.#pool.take(run, program.key)
      try {
        const number = this.#load(sandbox, program)
        const parts = [operationByte(operation), ...input]
        const answer = sandbox.call(Request.call, number, parts, this.#limits())
        return resultOf(await orAborted(answer, sandbox, run.signal), sandbox)
      } catch (error) {
        run.signal?.throwIfAborted()
        if (!(error instanceof ProcessEnd)) throw error
        if (error.cause !== 'killed' || tries === MOST_TRIES) throw processError(error)
      } finally {
        this.#pool.giveBack(sandbox)
      }
    }
  }

  /** The number of the program in that process, which is told of it where it does not know it. */
  #load(sandbox: SandboxProcess, program: SandboxProgram): number {
    const { programs } = sandbox
    const known = programs.get(program.key)
    programs.delete(program.key)
    const number = known ?? nextNumber()
    programs.set(program.key, number)
    if (known !== undefined) return known
    for (const [key, oldest] of programs) {
      if (programs.size <= MOST_PROGRAMS) break
      sandbox.tell(Request.drop, oldest, [])
      programs.delete(key)
    }
    const { isolateMemoryMb } = this.#settings()
    const text = { memoryMb: isolateMemoryMb, collations: program.collations, inner: program.inner() }
    sandbox.tell(Request.load, number, [Buffer.from(JSON.stringify(text))])
    return number
  }

  #limits(): { timeoutMs: number; memoryMb: number } {
    const { timeoutMs, processMemoryMb } = this.#settings()
    return { timeoutMs, memoryMb: processMemoryMb }
  }
}

/** A list function between two pages of rows. */
class ListSession implements ListRun {
  readonly #sandbox: SandboxProcess
  readonly #pool: SandboxPool
  readonly #limits: () => { timeoutMs: number; memoryMb: number }
  readonly #signal: AbortSignal | undefined
  #begun: ListOutput = { chunks: [], response: undefined, ended: false }
  #isOver = false
  readonly #onAbort = () => this.abandon()

  constructor(
    sandbox: SandboxProcess,
    pool: SandboxPool,
    limits: () => { timeoutMs: number; memoryMb: number },
    signal: AbortSignal | undefined,
  ) {
    this.#sandbox = sandbox
    this.#pool = pool
    this.#limits = limits
    this.#signal = signal
    signal?.addEventListener('abort', this.#onAbort, { once: true })
  }

  get begun(): ListOutput {
    return this.#begun
  }

  async begin(number: number, input: Uint8Array): Promise<void> {
    this.#begun = await this.#exchange(Request.call, number, [operationByte('list'), input])
  }

  rows(rows: readonly string[]): Promise<ListOutput> {
    return this.#exchange(Request.rows, 0, [Buffer.from(`[${rows}]`)])
  }

  end(): Promise<ListOutput> {
    return this.#exchange(Request.noMoreRows, 0, [])
  }

  abandon(): void {
    if (this.#isOver) return
    this.#sandbox.kill('closed')
    this.#finish()
  }

  #finish(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#signal?.removeEventListener('abort', this.#onAbort)
    this.#pool.giveBack(this.#sandbox)
  }

  async #exchange(kind: number, number: number, parts: readonly Uint8Array[]): Promise<ListOutput> {
    this.#signal?.throwIfAborted()
    if (this.#isOver) throw new Error('The list function has ended.')
    try {
      const frame = await this.#sandbox.call(kind, number, parts, this.#limits())
      const output = outputOf(frame, this.#sandbox)
      if (output.ended) this.#finish()
      return output
    } catch (error) {
      this.#finish()
      this.#signal?.throwIfAborted()
      throw error instanceof ProcessEnd ? processError(error) : error
    }
  }
}

const OPEN = 0x5b
const COMMA = 0x2c
const CLOSE = 0x5d
const END_OF_PART = '\u0002'

let lastNumber = 0

function nextNumber(): number {
  lastNumber = (lastNumber + 1) >>> 0
  return lastNumber
}

/** Small enough for the youngest part of a heap, where text costs least. */
const PORTION_BYTES = 48 * 1024

/** Documents as JSON arrays, each behind its header. */
function portions(documents: readonly Uint8Array[]): Buffer {
  let length = 0
  for (const document of documents) length += document.length + 1
  const most = Math.ceil(length / PORTION_BYTES) + 1
  const body = Buffer.allocUnsafe(length + 2 * most * (PORTION_HEADER_BYTES + 2))
  let at = 0
  for (let next = 0; next < documents.length; ) {
    const headerAt = at
    const first = next
    at += PORTION_HEADER_BYTES
    const start = at
    do {
      const document = documents[next++]
      body[at++] = at === start + 1 ? OPEN : COMMA
      if (document) body.set(document, at)
      at += document?.length ?? 0
    } while (next < documents.length && at - start < PORTION_BYTES)
    body[at++] = CLOSE
    body.writeUInt32LE(next - first, headerAt)
    body.writeUInt32LE(at - start, headerAt + 4)
  }
  return body.subarray(0, at)
}

function operationByte(operation: Operation): Uint8Array {
  return Buffer.of(OPERATIONS.indexOf(operation))
}

function designProgram({ id, key, text }: DesignProgram, { owner }: Run): SandboxProgram {
  return { key: `design\0${owner}\0${key}`, inner: () => `{"id":${JSON.stringify(id)},"design":${text}}` }
}

function documentInput(name: string, { document, request }: DocumentCall): Buffer {
  return Buffer.from(`[${JSON.stringify(name)},${document ?? 'null'},${request}]`)
}

/** A call that is given up may end by itself for a moment: a new process costs more than that. */
async function orAborted<T>(answer: Promise<T>, sandbox: SandboxProcess, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return answer
  let impatience: NodeJS.Timeout | undefined
  const onAbort = () => {
    impatience = setTimeout(() => sandbox.kill('closed'), GRACE_MS)
  }
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await answer
  } finally {
    clearTimeout(impatience)
    signal.removeEventListener('abort', onAbort)
  }
}

function resultOf(frame: Frame, sandbox: SandboxProcess): Buffer {
  if (frame.kind === Reply.result) return frame.body
  throw errorOf(frame, sandbox)
}

function outputOf(frame: Frame, sandbox: SandboxProcess): ListOutput {
  if (frame.kind !== Reply.result && frame.kind !== Reply.output) throw errorOf(frame, sandbox)
  const output: unknown = jsonIn(frame.body.toString())
  if (!isObject(output) || typeof output.chunks !== 'string') throw broken()
  const { response } = output
  return {
    chunks: output.chunks === '' ? [] : [output.chunks],
    response: isObject(response) ? response : undefined,
    isPaused: output.isPaused === true,
    ended: frame.kind === Reply.result,
  }
}

function errorOf({ kind, body }: Frame, sandbox: SandboxProcess): Error {
  const told = kind === Reply.error ? jsonIn(body.toString()) : undefined
  if (!isObject(told) || typeof told.id !== 'string') {
    sandbox.kill('protocol')
    return broken()
  }
  if (told.isFatal === true) sandbox.kill('closed')
  return functionError(told.id, told.reason)
}

function processError({ cause, status }: ProcessEnd): RequestError {
  const reason = cause === 'time' ? 'OS process timed out.' : `{exit_status,${status}}`
  return new RequestError(500, 'os_process_error', reason)
}

function broken(): RequestError {
  return new RequestError(500, 'os_process_error', 'A function spoiled its own result.')
}

function mappedBatch(body: Buffer): MappedBatch {
  if (body.length < 4) throw broken()
  const rows = body.readUInt32LE(0)
  const end = 4 + rows * MAPPED_FIELDS * 4
  if (end > body.length) throw broken()
  const fields = new Uint32Array(rows * MAPPED_FIELDS)
  new Uint8Array(fields.buffer).set(body.subarray(4, end))
  return { rows, fields, block: body.subarray(end) }
}

function booleans(body: Buffer, count: number): boolean[] {
  if (body.length !== count) throw broken()
  return Array.from(body, (byte) => byte === TRUE)
}

const TRUE = 0x31

/** Each part is closed by its mark. */
function textParts(body: Buffer, count: number): string[] {
  const parts = body.toString().split(END_OF_PART)
  if (parts.pop() !== '' || parts.length !== count) throw broken()
  return parts
}

function verdict(text: string): RequestError | undefined {
  const told = jsonIn(text)
  if (told === null) return undefined
  if (!isObject(told) || typeof told.id !== 'string') throw broken()
  const status = told.id === 'forbidden' ? 403 : told.id === 'unauthorized' ? 401 : 500
  return new RequestError(status, told.id, reasonText(told.reason), told.reason)
}

function responseIn(text: string): FunctionResponse {
  const response = jsonIn(text)
  if (!isObject(response)) throw broken()
  return response
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw broken()
  }
}

function isObject(value: unknown): value is { readonly [member: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const SHORTEST_OVERFLOW = 200
const SHOWN_OUTPUT = 100

function checkShrinking(result: string, inputLength: number): void {
  const output = `[${result}]`
  if (output.length <= SHORTEST_OVERFLOW || 2 * output.length <= inputLength) return
  const shown = output.slice(0, SHOWN_OUTPUT)
  throw new RequestError(
    500,
    'reduce_overflow_error',
    `Reduce output must shrink more rapidly: Current output: '${shown}'... (first ${SHOWN_OUTPUT} of ${output.length} bytes)`,
  )
}
