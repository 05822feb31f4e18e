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
  /** What the design document has for a function, whatever that is. */
  readonly source: unknown
}

/** The functions as of some moment. */
export interface KnownValidators {
  /** By falling ids of their design documents: the first that refuses is the one that is told. */
  readonly validators: readonly Validator[]
  /** Whether no design document was written since. */
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

  /** Undefined until they were asked for. */
  get known(): KnownValidators | undefined {
    return this.#known
  }

  async current(): Promise<KnownValidators> {
    if (this.#known) return this.#known
    this.#reading ??= this.#read()
    return this.#reading
  }

  /** To be told of every commit of design documents, before anybody hears that it is done. */
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

/** The calls of one function. */
interface Line {
  readonly program: DesignProgram
  readonly waiting: Request[]
  running: number
  impatience: NodeJS.Timeout | undefined
}

/** How long a call may go on before those who wait get one of their own, and how many there may be at a time. */
const PATIENCE_MS = 20
const MOST_CALLS = 8

/** What goes out in one call, beyond its first request. */
const CALL_WRITES = 500
const CALL_CHARACTERS = 1024 * 1024

/**
 * Shares calls among requests. A slow call is not waited for, and a call that brings its process down is repeated for each
 * request alone, so that no request pays for what another one writes.
 */
export class SharedValidation {
  readonly #functions: Functions
  readonly #owner: string
  readonly #lines = new Map<string, Line>()

  constructor(functions: Functions, owner: string) {
    this.#functions = functions
    this.#owner = owner
  }

  /** One verdict a write. Rejects with what keeps the function from saying anything. */
  verdicts(program: DesignProgram, writes: readonly ValidatedWrite[]): Promise<Verdict[]> {
    return new Promise((resolve, reject) => {
      const line = this.#lineOf(program)
      line.waiting.push({ writes, resolve, reject })
      if (line.running === 0) this.#call(line)
      else this.#callSoon(line)
    })
  }

  #lineOf(program: DesignProgram): Line {
    const known = this.#lines.get(program.key)
    if (known) return known
    const line: Line = { program, waiting: [], running: 0, impatience: undefined }
    this.#lines.set(program.key, line)
    return line
  }

  #callSoon(line: Line): void {
    line.impatience ??= setTimeout(() => {
      line.impatience = undefined
      if (line.waiting.length === 0 || line.running >= MOST_CALLS) return
      this.#call(line)
      if (line.waiting.length > 0) this.#callSoon(line)
    }, PATIENCE_MS)
  }

  async #call(line: Line): Promise<void> {
    const requests = nextOf(line.waiting)
    line.running++
    await this.#answer(line.program, requests)
    line.running--
    if (line.waiting.length > 0) this.#call(line)
    else if (line.running === 0) {
      clearTimeout(line.impatience)
      this.#lines.delete(line.program.key)
    }
  }

  async #answer(program: DesignProgram, requests: readonly Request[]): Promise<void> {
    try {
      const verdicts = (await this.#validate(program, requests)).values()
      for (const { writes, resolve } of requests) resolve(writes.map(() => verdicts.next().value))
    } catch (error) {
      if (requests.length > 1 && isOfProcess(error)) {
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

/** Whether what went wrong ended the process, and not only the function. */
function isOfProcess(error: unknown): boolean {
  return error instanceof RequestError && error.error === 'os_process_error'
}

function asRequestError(error: Error): RequestError {
  return error instanceof RequestError ? error : new RequestError('failed', error.name, error.message)
}
