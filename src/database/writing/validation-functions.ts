/**
 * The validation functions of a database and the calls to them. They are read with the first write, and again after a
 * design document was written. Requests that write at the same time share calls: what arrives while a call is under way goes
 * out with the next one.
 */

import { RequestError } from '../../document/request-error.ts'
import type { DesignProgram, Functions, ValidatedWrite } from '../../functions/functions.ts'
import type { Page } from '../../storage/store.ts'
import type { DatabaseView } from '../database-view.ts'
import type { DesignCache } from '../design/design-document.ts'
import { summarizeRecord } from '../layout/document-record.ts'
import { documentKey, idOfDocumentKey } from '../layout/keys.ts'

export interface Validator {
  readonly program: DesignProgram
  /** The member `validate_doc_update` of the design document, of any type. */
  readonly source: unknown
}

/** The validation functions at one point in time. */
export interface KnownValidators {
  /** In descending order of their design documents' ids: the first refusal is the reply. */
  readonly validators: readonly Validator[]
  /** Whether no design document was written since then. */
  readonly isCurrent: () => boolean
}

export class Validators {
  readonly #uuid: string
  readonly #designs: DesignCache
  readonly #view: () => DatabaseView
  #known: KnownValidators | undefined
  #reading: Promise<KnownValidators> | undefined
  /** Counts the times that design documents were written. */
  #generation = 0

  constructor(uuid: string, designs: DesignCache, view: () => DatabaseView) {
    this.#uuid = uuid
    this.#designs = designs
    this.#view = view
  }

  /** Undefined until they are first read. */
  get known(): KnownValidators | undefined {
    return this.#known
  }

  async current(): Promise<KnownValidators> {
    if (this.#known) return this.#known
    this.#reading ??= this.#read()
    return this.#reading
  }

  /** To be called after each commit of design documents, before its writer is answered. */
  designsWritten(): void {
    this.#generation++
    this.#known = undefined
    this.#reading = undefined
  }

  async #read(): Promise<KnownValidators> {
    const generation = this.#generation
    const isCurrent = () => generation === this.#generation
    try {
      const known = { validators: await this.#list(), isCurrent }
      if (isCurrent()) this.#known = known
      return known
    } finally {
      if (isCurrent()) this.#reading = undefined
    }
  }

  async #list(): Promise<Validator[]> {
    using view = this.#view()
    const found: Validator[] = []
    for (const id of await liveDesigns(view)) {
      const { program, members } = await this.#designs.open(view, this.#uuid, id)
      const source = members.validate_doc_update ?? null
      if (source !== null) found.push({ program, source })
    }
    return found.reverse()
  }
}

const ALL_DESIGNS = { from: documentKey('_design/'), to: documentKey('_design0') }

/** The ids of the design documents that are not deleted, in order. */
async function liveDesigns({ snapshot }: DatabaseView): Promise<string[]> {
  const ids: string[] = []
  for (let rest: Page['next'] = ALL_DESIGNS; rest; ) {
    const page: Page = await snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      if (!summarizeRecord(page.value(row)).deleted) ids.push(idOfDocumentKey(page.key(row)))
    }
    rest = page.next
  }
  return ids
}

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
