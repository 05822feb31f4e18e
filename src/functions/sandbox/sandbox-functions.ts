/**
 * `Functions` for JavaScript: calls become frames for sandbox processes, and replies become results. A call whose process was
 * killed from outside is repeated. A call that brought its process down is not.
 */
import { RequestError } from '../../document/request-error.ts'
import type { Run } from '../../runtime/fair-semaphore.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { Metrics } from '../../runtime/metrics.ts'
import type { FunctionSettings } from '../function-settings.ts'
import type {
  DesignProgram,
  DocumentCall,
  FunctionResponse,
  Functions,
  ListCall,
  ListRun,
  MapProgram,
  MappedBatch,
  ReduceInput,
  ReduceProgram,
  UpdateResult,
  ValidatedWrite,
} from '../functions.ts'
import { documentPortions } from './document-portions.ts'
import { type Frame, OPERATIONS, type Operation, Request } from './frame.ts'
import { SandboxList } from './sandbox-list.ts'
import { SandboxPool } from './sandbox-pool.ts'
import { type CallLimits, ProcessEnd, type SandboxProcess } from './sandbox-process.ts'
import { designProgram, loadProgram, mapProgram, reduceProgram, type SandboxProgram } from './sandbox-program.ts'
import {
  booleans,
  END_OF_PART,
  mappedBatch,
  processError,
  responseIn,
  resultOf,
  spoiled,
  textParts,
  verdict,
} from './sandbox-replies.ts'

export interface SandboxOptions {
  readonly settings: () => FunctionSettings
  readonly log: Log
  readonly metrics?: Metrics | undefined
}

/** How often a call is begun when its process is killed from outside. */
const MOST_TRIES = 8
/** As much as an index puts into one call. */
const ROOM_BYTES = 640 * 1024
const MOST_ROOMS = 4

export class SandboxFunctions implements Functions {
  readonly #settings: () => FunctionSettings
  readonly #pool: SandboxPool
  /** For documents on their way. */
  readonly #rooms: Buffer[] = []

  constructor({ settings, log, metrics }: SandboxOptions) {
    this.#settings = settings
    this.#pool = new SandboxPool({ log, metrics, limit: () => settings().processLimit })
  }

  async map(program: MapProgram, documents: readonly Uint8Array[], run: Run): Promise<MappedBatch> {
    if (program.maps.length === 0) return { rows: 0, fields: new Uint32Array(), block: Buffer.alloc(0) }
    // Used again and again: to allocate and sweep it costs more than to write it.
    const room = this.#rooms.pop() ?? Buffer.allocUnsafe(ROOM_BYTES)
    try {
      const portions = documentPortions(documents, room)
      return mappedBatch(await this.#call(mapProgram(program, run), 'map', portions, run))
    } finally {
      if (this.#rooms.length < MOST_ROOMS) this.#rooms.push(room)
    }
  }

  reduce(program: ReduceProgram, groups: readonly (readonly ReduceInput[])[], run: Run): Promise<string[]> {
    const texts = groups.map((rows) => {
      const pairs = rows.map(({ key, id, value }) => `[[${key},${JSON.stringify(id)}],${value}]`)
      return `[${pairs}]`
    })
    return this.#reduce('reduce', program, texts, run)
  }

  rereduce(program: ReduceProgram, groups: readonly (readonly string[])[], run: Run): Promise<string[]> {
    const texts = groups.map((values) => `[${values}]`)
    return this.#reduce('rereduce', program, texts, run)
  }

  async filter(
    design: DesignProgram,
    name: string,
    documents: readonly string[],
    request: string,
    run: Run,
  ): Promise<boolean[]> {
    const input = `[${JSON.stringify(name)},[${documents}],${request}]`
    return booleans(await this.#call(designProgram(design, run), 'filter', input, run), documents.length)
  }

  async filterByView(design: DesignProgram, view: string, documents: readonly string[], run: Run): Promise<boolean[]> {
    const input = `[${JSON.stringify(view)},[${documents}]]`
    return booleans(await this.#call(designProgram(design, run), 'filterByView', input, run), documents.length)
  }

  async validate(
    design: DesignProgram,
    writes: readonly ValidatedWrite[],
    run: Run,
  ): Promise<(RequestError | undefined)[]> {
    const calls = writes.map(
      ({ document, previous, user, security }) => `[${document},${previous ?? 'null'},${user},${security}]`,
    )
    const reply = await this.#call(designProgram(design, run), 'validate', `[${calls}]`, run)
    return textParts(reply, writes.length).map(verdict)
  }

  async show(design: DesignProgram, name: string, call: DocumentCall, run: Run): Promise<FunctionResponse> {
    const reply = await this.#call(designProgram(design, run), 'show', documentInput(name, call), run)
    return responseIn(reply.toString())
  }

  async update(design: DesignProgram, name: string, call: DocumentCall, run: Run): Promise<UpdateResult> {
    const reply = await this.#call(designProgram(design, run), 'update', documentInput(name, call), run)
    const [document, response, ...others] = reply.toString().split(END_OF_PART)
    if (document === undefined || response === undefined || others.length > 0) throw spoiled()
    return { document: document === 'null' ? null : document, response: responseIn(response) }
  }

  async list(design: DesignProgram, name: string, { head, request }: ListCall, run: Run): Promise<ListRun> {
    const program = designProgram(design, run)
    const input = `[${JSON.stringify(name)},${head},${request}]`
    const tries = new Tries()
    for (;;) {
      const sandbox = await this.#pool.take(run, { programKey: program.key, mayFollow: false })
      const list = new SandboxList({ sandbox, pool: this.#pool, limits: () => this.#limits(), signal: run.signal })
      const number = loadProgram(sandbox, program, this.#settings().isolateMemoryMb)
      const begun = await tries.unlessKilled(list.begin(number, callParts('list', input)))
      if (begun) return begun
    }
  }

  prepare(): void {
    this.#pool.prepare()
  }

  close(): Promise<void> {
    return this.#pool.close()
  }

  async #reduce(
    operation: 'reduce' | 'rereduce',
    program: ReduceProgram,
    groups: readonly string[],
    run: Run,
  ): Promise<string[]> {
    if (program.source === '') throw new RequestError('not found', 'not_found', 'missing function')
    const reply = await this.#call(reduceProgram(program, run), operation, `[${groups}]`, run)
    const results = textParts(reply, groups.length)
    if (this.#settings().reduceLimit) {
      const around = JSON.stringify([operation, [program.source]]).length + ','.length
      for (const [index, result] of results.entries()) checkShrinking(result, around + (groups[index]?.length ?? 0))
    }
    return results
  }

  async #call(program: SandboxProgram, operation: Operation, input: string | Buffer, run: Run): Promise<Buffer> {
    const parts = callParts(operation, input)
    const tries = new Tries()
    for (;;) {
      const sandbox = await this.#pool.take(run, { programKey: program.key, mayFollow: operation === 'map' })
      try {
        const number = loadProgram(sandbox, program, this.#settings().isolateMemoryMb)
        const answer = sandbox.call(Request.call, number, parts, this.#limits())
        const frame = await tries.unlessKilled(unlessAborted(answer, sandbox, run.signal))
        if (frame) return resultOf(frame, sandbox)
      } finally {
        this.#pool.giveBack(sandbox)
      }
    }
  }

  #limits(): CallLimits {
    const { timeoutMs, processMemoryMb } = this.#settings()
    return { timeoutMs, memoryMb: processMemoryMb }
  }
}

function callParts(operation: Operation, input: string | Buffer): readonly Uint8Array[] {
  const bytes = typeof input === 'string' ? Buffer.from(input) : input
  return [Buffer.of(OPERATIONS.indexOf(operation)), bytes]
}

function documentInput(name: string, { document, request }: DocumentCall): string {
  return `[${JSON.stringify(name)},${document ?? 'null'},${request}]`
}

/** Of one call. */
class Tries {
  #kills = 0

  /** Undefined if the call must be repeated: its process was killed for another reason than the call. */
  async unlessKilled<T>(answer: Promise<T>): Promise<T | undefined> {
    try {
      return await answer
    } catch (error) {
      if (!(error instanceof ProcessEnd)) throw error
      // Another call has failed then, so this comes to an end.
      if (error.cause === 'behind') return undefined
      if (error.cause === 'killed' && ++this.#kills < MOST_TRIES) return undefined
      throw processError(error)
    }
  }
}

/** Rejects with the signal's reason when the call is given up; its process is free or dead soon after. */
async function unlessAborted(
  answer: Promise<Frame>,
  sandbox: SandboxProcess,
  signal: AbortSignal | undefined,
): Promise<Frame> {
  if (!signal) return answer
  const onAbort = () => sandbox.giveUp(answer)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await answer
  } finally {
    signal.removeEventListener('abort', onAbort)
    signal.throwIfAborted()
  }
}

const SHORTEST_OVERFLOW = 200
const SHOWN_CHARACTERS = 100

/**
 * The reduce limit: results of reduce functions must be shorter than their input, whose length is that of the command which
 * would carry it, in characters.
 */
function checkShrinking(result: string, inputLength: number): void {
  const output = `[${result}]`
  if (output.length <= SHORTEST_OVERFLOW || 2 * output.length <= inputLength) return
  const shown = `'${output.slice(0, SHOWN_CHARACTERS)}'... (first ${SHOWN_CHARACTERS} of ${output.length} bytes)`
  throw new RequestError(
    'failed',
    'reduce_overflow_error',
    `Reduce output must shrink more rapidly: Current output: ${shown}`,
  )
}
