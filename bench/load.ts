/**
 * Puts a load on a server and measures how much of it is done a second. Every answer is checked. The clock runs only
 * while a request is under way, so what the generator does between two requests of one connection is not counted.
 */
import { HttpConnection, type ServerAddress } from './http-connection.ts'
import type { Reply } from './reply-reader.ts'

export interface Exchange {
  readonly request: string
  /** How many units of work the answer stands for. Throws when it is not the right one. */
  check(reply: Reply): number
}

/** The number of the document in a template: the compiled generator puts another one wherever its digits are. */
export const TEMPLATE_NUMBER = 987_654_321

/** Requests that differ in the number of their document only. Replies name the document. */
export interface NumberedRequests {
  /** Used in turn. */
  readonly templates: readonly string[]
  readonly status: number
  /** Each request is for any of so many documents; without it for a new one. */
  readonly documents?: number
  /** The number of the next new document. */
  next: number
}

export interface Load {
  readonly connections: number
  next(): Exchange
  /** The same requests for the compiled generator. */
  readonly numbered?: NumberedRequests
  /** Whether the latency of each exchange is the question too. */
  readonly keepsLatencies?: boolean
  /** Looks at the server after a round, when nothing is under way. Throws when work was lost. */
  verify?(): Promise<void>
}

/** A load that drives itself. */
export interface Drive {
  drive(durationMs: number): Promise<Measure>
  /** Lets go of what it held between rounds. */
  end?(): Promise<void>
}

export interface Measure {
  readonly units: number
  readonly unitsPerSecond: number
  /** How much of a core the generator used: near 1 it, and not the server, was the limit. 0 where that cannot be. */
  readonly generatorShare: number
  /** How long each unit took, where that is the question. */
  readonly latenciesMs?: readonly number[]
}

/** Where several servers answer, connections are made to each in turn, as a load balancer does. */
export async function drive(
  server: ServerAddress | readonly ServerAddress[],
  load: Load,
  durationMs: number,
): Promise<Measure> {
  const servers = [server].flat()
  const places = Array.from({ length: load.connections }, (_, i) => servers[i % servers.length]!)
  const connections = await Promise.all(places.map((place) => HttpConnection.open(place)))
  const clock = new BusyClock()
  const cpuBefore = process.cpuUsage()
  const start = performance.now()
  const latenciesMs: number[] = []
  let units = 0
  const keepAsking = (connection: HttpConnection): Promise<void> =>
    new Promise((resolve, reject) => {
      const ask = () => {
        if (clock.busyMs() >= durationMs) return resolve()
        const { request, check } = load.next()
        clock.begin()
        const sentMs = performance.now()
        const answered = (reply: Reply) => {
          clock.end()
          if (load.keepsLatencies) latenciesMs.push(performance.now() - sentMs)
          try {
            units += check(reply)
          } catch (error) {
            return reject(error)
          }
          ask()
        }
        connection.send(request, answered, reject)
      }
      ask()
    })
  try {
    await Promise.all(connections.map(keepAsking))
  } finally {
    for (const connection of connections) connection.destroy()
  }
  const { user, system } = process.cpuUsage(cpuBefore)
  // What one connection has to wait for is not on the clock.
  const generatorShare = load.connections === 1 ? 0 : (user + system) / 1000 / (performance.now() - start)
  await load.verify?.()
  return { units, unitsPerSecond: units / (clock.busyMs() / 1000), generatorShare, latenciesMs }
}

/** The time during which at least one request was under way. */
class BusyClock {
  #underWay = 0
  #since = 0
  #totalMs = 0

  begin(): void {
    if (this.#underWay++ === 0) this.#since = performance.now()
  }

  end(): void {
    if (--this.#underWay === 0) this.#totalMs += performance.now() - this.#since
  }

  busyMs(): number {
    return this.#totalMs + (this.#underWay > 0 ? performance.now() - this.#since : 0)
  }
}
