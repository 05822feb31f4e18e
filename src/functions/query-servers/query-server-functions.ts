/**
 * User functions in languages that the operator configured: processes that speak CouchDB's query-server protocol. Their
 * answers are validated, never trusted.
 */

import type { Run } from '../../runtime/fair-semaphore.ts'
import type { Log } from '../../runtime/log/log.ts'
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
import { allOf, QueryServer, type ReplyReading, type ResetSettings, readTrue } from './query-server.ts'
import { QueryServerList } from './query-server-list.ts'
import { type Preference, QueryServerPool } from './query-server-pool.ts'
import {
  EmittedRows,
  readListStart,
  readReduction,
  readResponse,
  readRows,
  readUpdate,
  readValidation,
  readVerdicts,
} from './query-server-replies.ts'

export interface QueryServerFunctionsOptions {
  readonly language: string
  /** The command line that counts now; throws where there is none any more. */
  readonly command: () => string
  readonly settings: () => QueryServerSettings
  readonly log: Log
}

export interface QueryServerSettings extends ResetSettings {
  /** How many processes there may be. */
  readonly processLimit: number
}

export class QueryServerFunctions implements Functions {
  readonly #pool: QueryServerPool

  constructor({ language, command, settings, log }: QueryServerFunctionsOptions) {
    this.#pool = new QueryServerPool({
      start: () => new QueryServer({ language, command: command(), log, timeoutMs: () => settings().timeoutMs }),
      prepare: (server) => server.reset(settings()),
      limit: () => settings().processLimit,
    })
  }

  map(program: MapProgram, documents: readonly Uint8Array[], run: Run): Promise<MappedBatch> {
    const { library, maps } = program
    const preparation = [
      ...(library === undefined ? [] : [`["add_lib",${library}]`]),
      ...maps.map(({ source }) => JSON.stringify(['add_fun', source])),
    ]
    return this.#pool.use(run, async (server) => {
      allOf(await server.askAll(preparation, readTrue))
      const rows = new EmittedRows()
      const outcomes = await server.askAll(mapCommands(documents), (reply) => readRows(reply, maps.length))
      for (const [document, perMap] of allOf(outcomes).entries()) {
        for (const [map, emitted] of perMap.entries()) {
          rows.add(document, map, emitted, maps[map]?.collation ?? 'unicode')
        }
      }
      return rows.batch()
    })
  }

  reduce({ source }: ReduceProgram, groups: readonly (readonly ReduceInput[])[], run: Run): Promise<string[]> {
    const commands = groups.map((group) => {
      const rows = group.map(({ key, id, value }) => `[[${key},${JSON.stringify(id)}],${value}]`)
      return `["reduce",[${JSON.stringify(source)}],[${rows.join()}]]`
    })
    return this.#pool.use(run, async (server) => allOf(await server.askAll(commands, readReduction)))
  }

  rereduce({ source }: ReduceProgram, groups: readonly (readonly string[])[], run: Run): Promise<string[]> {
    const commands = groups.map((values) => `["rereduce",[${JSON.stringify(source)}],[${values.join()}]]`)
    return this.#pool.use(run, async (server) => allOf(await server.askAll(commands, readReduction)))
  }

  filter(
    design: DesignProgram,
    name: string,
    documents: readonly string[],
    request: string,
    run: Run,
  ): Promise<boolean[]> {
    const read: ReplyReading<boolean[]> = (reply) => readVerdicts(reply, documents.length)
    return this.#call(design, ['filters', name], `[[${documents.join()}],${request}]`, read, run)
  }

  filterByView(design: DesignProgram, view: string, documents: readonly string[], run: Run): Promise<boolean[]> {
    const read: ReplyReading<boolean[]> = (reply) => readVerdicts(reply, documents.length)
    return this.#call(design, ['views', view, 'map'], `[[${documents.join()}]]`, read, run)
  }

  validate(design: DesignProgram, writes: readonly ValidatedWrite[], run: Run): Promise<(Error | undefined)[]> {
    const commands = writes.map(({ document, previous, user, security }) =>
      designCommand(design, ['validate_doc_update'], `[${document},${previous},${user},${security}]`),
    )
    return this.#useWith(design, run, async (server) => {
      const outcomes = await server.askAll(commands, readValidation)
      // What fails for one write is the answer to that write alone.
      return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : errorOf(outcome.reason)))
    })
  }

  show(design: DesignProgram, name: string, call: DocumentCall, run: Run): Promise<FunctionResponse> {
    return this.#call(design, ['shows', name], `[${call.document},${call.request}]`, readResponse, run)
  }

  update(design: DesignProgram, name: string, call: DocumentCall, run: Run): Promise<UpdateResult> {
    return this.#call(design, ['updates', name], `[${call.document},${call.request}]`, readUpdate, run)
  }

  async list(design: DesignProgram, name: string, { head, request }: ListCall, run: Run): Promise<ListRun> {
    const taken = await this.#pool.take(run, knowing(design))
    const { server } = taken
    try {
      await server.teach(design)
      const begun = await server.ask(designCommand(design, ['lists', name], `[${head},${request}]`), readListStart)
      return new QueryServerList(taken, begun, run.signal)
    } catch (error) {
      taken.release()
      run.signal?.throwIfAborted()
      throw error
    }
  }

  /** Processes that run now finish what they do; then new ones take their place. */
  restart(): void {
    this.#pool.restart()
  }

  /** The operator's program starts with the first call: what it does while idle is unknown. */
  prepare(): void {}

  close(): Promise<void> {
    return this.#pool.close()
  }

  #call<T>(
    design: DesignProgram,
    path: readonly string[],
    parameters: string,
    read: ReplyReading<T>,
    run: Run,
  ): Promise<T> {
    return this.#useWith(design, run, (server) => server.ask(designCommand(design, path, parameters), read))
  }

  #useWith<T>(design: DesignProgram, run: Run, work: (server: QueryServer) => Promise<T>): Promise<T> {
    const taught = async (server: QueryServer): Promise<T> => {
      await server.teach(design)
      return work(server)
    }
    return this.#pool.use(run, taught, knowing(design))
  }
}

function* mapCommands(documents: readonly Uint8Array[]): Generator<string> {
  for (const { buffer, byteOffset, byteLength } of documents) {
    yield `["map_doc",${Buffer.from(buffer, byteOffset, byteLength).toString()}]`
  }
}

function designCommand({ id }: DesignProgram, path: readonly string[], parameters: string): string {
  return `["ddoc",${JSON.stringify(id)},${JSON.stringify(path)},${parameters}]`
}

function knowing(design: DesignProgram): Preference {
  return (server) => server.knows(design)
}

function errorOf(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason))
}
