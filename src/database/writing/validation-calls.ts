/**
 * The calls to validation functions and their verdicts. Requests that write at the same time share calls: what arrives while
 * a call is under way goes out with the next one.
 */

import { RequestError } from '../../document/request-error.ts'
import type { DesignProgram, Functions, ValidatedWrite } from '../../functions/functions.ts'
import type { Snapshot } from '../../storage/store.ts'
import { summarizeRecord } from '../layout/document-record.ts'
import { type DatabaseState, documentKey } from '../layout/keys.ts'
import type { DocumentEdit } from './edit.ts'
import type { BodyEdit } from './validated-edit.ts'

export type Verdict = RequestError | undefined

interface Request {
  readonly writes: readonly ValidatedWrite[]
  readonly resolve: (verdicts: Verdict[]) => void
  readonly reject: (error: unknown) => void
}

/** The queue of calls to one function. */
interface CallQueue {
  readonly program: DesignProgram
  readonly waiting: Request[]
  running: number
  timer: NodeJS.Timeout | undefined
}

/** After this time queued requests do not wait for the running call any longer, and get another one. */
const WAIT_FOR_CALL_MS = 20
const MOST_CALLS = 8

/** Limits on one call, beyond its first request. */
const CALL_WRITES = 500
const CALL_CHARACTERS = 1024 * 1024

/**
 * Shares calls among requests. Requests do not wait for a slow call. A call that ends its process is repeated for each request
 * alone, so that no request fails because of another one's documents.
 */
export class SharedValidation {
  readonly #functions: Functions
  readonly #owner: string
  readonly #queues = new Map<string, CallQueue>()

  constructor(functions: Functions, owner: string) {
    this.#functions = functions
    this.#owner = owner
  }

  /** One verdict for each write. Rejects where the function itself could not run. */
  verdicts(program: DesignProgram, writes: readonly ValidatedWrite[]): Promise<Verdict[]> {
    return new Promise((resolve, reject) => {
      const queue = this.#queueOf(program)
      queue.waiting.push({ writes, resolve, reject })
      if (queue.running === 0) this.#call(queue)
      else this.#callSoon(queue)
    })
  }

  #queueOf(program: DesignProgram): CallQueue {
    const known = this.#queues.get(program.key)
    if (known) return known
    const queue: CallQueue = { program, waiting: [], running: 0, timer: undefined }
    this.#queues.set(program.key, queue)
    return queue
  }

  #callSoon(queue: CallQueue): void {
    queue.timer ??= setTimeout(() => {
      queue.timer = undefined
      if (queue.waiting.length === 0 || queue.running >= MOST_CALLS) return
      this.#call(queue)
      if (queue.waiting.length > 0) this.#callSoon(queue)
    }, WAIT_FOR_CALL_MS)
  }

  async #call(queue: CallQueue): Promise<void> {
    const requests = nextOf(queue.waiting)
    queue.running++
    await this.#answer(queue.program, requests)
    queue.running--
    if (queue.waiting.length > 0) this.#call(queue)
    else if (queue.running === 0) {
      clearTimeout(queue.timer)
      this.#queues.delete(queue.program.key)
    }
  }

  async #answer(program: DesignProgram, requests: readonly Request[]): Promise<void> {
    try {
      const verdicts = (await this.#validate(program, requests)).values()
      for (const { writes, resolve } of requests) resolve(writes.map(() => verdicts.next().value))
    } catch (error) {
      if (requests.length > 1 && endedProcess(error)) {
        await Promise.all(requests.map((request) => this.#answer(program, [request])))
      } else for (const { reject } of requests) reject(error)
    }
  }

  async #validate(program: DesignProgram, requests: readonly Request[]): Promise<Verdict[]> {
    const writes = requests.flatMap((request) => request.writes)
    const errors = await this.#functions.validate(program, writes, { owner: this.#owner })
    return errors.map((error) => error && asRequestError(error))
  }
}

function nextOf(waiting: Request[]): Request[] {
  let writes = 0
  let characters = 0
  const beyond = waiting.findIndex((request, i) => {
    writes += request.writes.length
    for (const { document, previous } of request.writes) characters += document.length + (previous?.length ?? 0)
    return i > 0 && (writes > CALL_WRITES || characters > CALL_CHARACTERS)
  })
  return waiting.splice(0, beyond < 0 ? waiting.length : beyond)
}

/** Whether the failure ended the process, and not only the function. */
function endedProcess(error: unknown): boolean {
  return error instanceof RequestError && error.error === 'os_process_error'
}

function asRequestError(error: Error): RequestError {
  return error instanceof RequestError ? error : new RequestError('failed', error.name, error.message)
}

/** The verdicts on the edits of one request, and the input that they are for. */
export class Verdicts {
  readonly errors = new Map<DocumentEdit, RequestError>()
  readonly #isCurrent: () => boolean
  /** Of documents whose edits may find another parent by the time they are written. */
  readonly #sequences = new Map<string, number>()
  #updateSequence: number | undefined

  /** `isCurrent` returns whether the functions that judged are still those of the database. */
  constructor(isCurrent: () => boolean) {
    this.#isCurrent = isCurrent
  }

  saw(edits: readonly BodyEdit[], sequences: ReadonlyMap<string, number>, { updateSequence }: DatabaseState): void {
    this.#updateSequence ??= updateSequence
    for (const { id, kind } of edits) {
      // An interactive edit follows the parent that it names, or is a conflict.
      if (kind !== 'interactive') this.#sequences.set(id, sequences.get(id) ?? 0)
    }
  }

  async stillHold(snapshot: Snapshot, { updateSequence }: DatabaseState): Promise<boolean> {
    if (!this.#isCurrent()) return false
    if (updateSequence === this.#updateSequence || this.#sequences.size === 0) return true
    const stored = await snapshot.getMany([...this.#sequences.keys()].map(documentKey))
    return [...this.#sequences.values()].every((sequence, i) => {
      const bytes = stored[i]
      return sequence === (bytes ? summarizeRecord(bytes).sequence : 0)
    })
  }
}

/** Limits on one portion of edits to validate. */
const PORTION_EDITS = 500
const PORTION_BYTES = 1024 * 1024

export function* portionsOf(edits: readonly BodyEdit[]): Generator<BodyEdit[]> {
  let portion: BodyEdit[] = []
  let bytes = 0
  for (const edit of edits) {
    portion.push(edit)
    bytes += edit.body.length
    if (portion.length < PORTION_EDITS && bytes < PORTION_BYTES) continue
    yield portion
    portion = []
    bytes = 0
  }
  if (portion.length > 0) yield portion
}
