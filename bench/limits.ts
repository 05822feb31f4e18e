/**
 * What no server on this machine could exceed, measured in the same rounds as the servers: the same bytes with nothing
 * of a database around them. Each is a process of its own.
 */
import { join } from 'node:path'
import { expectStatus, member } from './bench-database.ts'
import { NodeProcess } from './child-process.ts'
import { addressOf, requestText, type ServerAddress } from './http-connection.ts'
import { drive, type Measure } from './load.ts'
import type { Reply } from './reply-reader.ts'

export interface Limit {
  readonly name: string
  /** The share of it that this server should reach, where there is an aim. */
  readonly share?: number | undefined
  start(): Promise<RunningLimit>
}

/** Without the share of the generator where there is none. */
export type LimitMeasure = Pick<Measure, 'unitsPerSecond'> & Partial<Measure>

export interface RunningLimit {
  run(durationMs: number): Promise<LimitMeasure>
  stop(): Promise<void>
  /** Of the process that does the work, where its processor time is of interest. */
  readonly pid?: number
}

const FOLDER = join(import.meta.dirname, 'limits')

export interface BareServerOptions {
  readonly share?: number
  readonly connections: number
  /** Of a reply, or of a request. */
  readonly sizeBytes: number
  /** What a reply stands for: 1 unless given. */
  readonly units?: number
}

/** A bare socket that answers whatever comes with a constant. */
export function bareSocket(options: BareServerOptions): Limit {
  return bareServer('bare-socket.ts', 'bare socket, a constant of that size', options)
}

/** A bare `node:http` server that answers every request with a constant. */
export function bareHttp(options: BareServerOptions): Limit {
  return bareServer('bare-http.ts', 'bare node:http, a constant of that size', options)
}

/** A bare `node:http` server that streams a file. */
export function bareFile(options: BareServerOptions): Limit {
  return bareServer('bare-file.ts', 'bare node:http, a file of that size', options)
}

/** A bare `node:http` server that hashes what it gets, writes it to a file and flushes it. */
export function bareUpload(options: BareServerOptions): Limit {
  const content = 'x'.repeat(options.sizeBytes)
  return bareServer('bare-upload.ts', 'bare node:http, hashed and written to a file', options, (server) =>
    requestText(server, 'PUT', '/content', content, { contentType: 'application/octet-stream' }),
  )
}

function bareServer(
  program: string,
  name: string,
  options: BareServerOptions,
  request = (server: ServerAddress) => requestText(server, 'GET', '/constant'),
): Limit {
  const start = async (): Promise<RunningLimit> => {
    const child = new NodeProcess({ args: [join(FOLDER, program), String(options.sizeBytes)] })
    const server = addressOf(await child.printed(/(http:\/\/\S+)/))
    const exchange = {
      request: request(server),
      check: (reply: Reply) => {
        if (reply.status !== 201) expectStatus(reply, 200)
        return options.units ?? 1
      },
    }
    const load = { connections: options.connections, next: () => exchange }
    return {
      run: (durationMs) => drive(server, load, durationMs),
      stop: () => child.stop(),
      pid: child.pid,
    }
  }
  return { name, share: options.share, start }
}

/** How many milliseconds a bare isolate takes to parse and map so many documents. */
export async function bareIsolateMs(documents: number, sizeBytes: number, map: string): Promise<number> {
  const program = join(FOLDER, 'bare-isolate.ts')
  const child = new NodeProcess({ args: ['--no-node-snapshot', program, String(documents), String(sizeBytes), map] })
  return Number(await child.printed(/([\d.]+) ms/))
}

/** The same documents parsed and mapped in a bare isolate, on one core, and nothing done with what they emit. */
export function bareIsolate(options: { documents: number; sizeBytes: number; map: string }): Limit {
  const { documents, sizeBytes, map } = options
  const args = ['--no-node-snapshot', join(FOLDER, 'bare-isolate.ts'), String(documents), String(sizeBytes), map]
  return bareProgram('bare isolate, parsed and mapped on one core', args)
}

/** Bare `lmdb` that puts the same documents in the same batches, each batch on disk before the next begins. */
export function bareLmdb(options: { share?: number; batch: number; sizeBytes: number }): Limit {
  const args = [join(FOLDER, 'bare-lmdb.ts'), String(options.batch), String(options.sizeBytes)]
  return bareProgram('bare lmdb, one durable put a document', args, options.share)
}

/** Bare `lmdb` that reads documents one by one in no order, or all of them in order. */
export function bareLmdbReads(options: { documents: number; sizeBytes: number; order: 'any' | 'scan' }): Limit {
  const { documents, sizeBytes, order } = options
  const args = [join(FOLDER, 'bare-lmdb-read.ts'), String(documents), String(sizeBytes), order]
  return bareProgram(order === 'scan' ? 'bare lmdb, all in order' : 'bare lmdb, one by one', args)
}

/** A program that is asked for a round by a message, and answers with a rate. */
function bareProgram(name: string, args: readonly string[], share?: number): Limit {
  const start = async (): Promise<RunningLimit> => {
    const child = new NodeProcess({ args, messages: true })
    return {
      run: async (durationMs) => {
        const answer = await child.ask({ durationMs })
        const latencies = member(answer, 'latenciesMs')
        const latenciesMs = Array.isArray(latencies) ? latencies.map(Number) : []
        return { unitsPerSecond: Number(member(answer, 'perSecond')), latenciesMs }
      },
      stop: () => child.stop(),
    }
  }
  return { name, share, start }
}
