/**
 * Loads that follow a database instead of asking one thing after the other: how fast a waiting client hears of a change,
 * and how fast many of them do.
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { type BenchDatabase, expectStatus, member, parsed } from './bench-database.ts'
import { HttpConnection } from './http-connection.ts'
import type { Drive, Measure } from './load.ts'

/** Time until the change is there for whom it was waiting; the clock begins when the change is sent to the server. */
export function wakeUps(database: BenchDatabase): Drive {
  let number = 0
  return {
    async drive(durationMs): Promise<Measure> {
      const writer = await HttpConnection.open(database.server)
      const waiting = await HttpConnection.open(database.server)
      const latenciesMs: number[] = []
      const begun = performance.now()
      try {
        while (performance.now() - begun < durationMs) {
          const { since, id } = { since: await lastSequence(database, writer), id: `woken-${number++}` }
          const path = `/_changes?feed=longpoll&heartbeat=30000&since=${since}`
          const reply = waiting.exchange(database.request('GET', path))
          // Another request on the way: after its reply the feed has surely begun to wait.
          expectStatus(await writer.exchange(database.request('GET', '')), 200)
          const sentMs = performance.now()
          const written = writer.exchange(database.request('PUT', `/${id}`, '{}'))
          const changes = parsed(await reply, 200)
          latenciesMs.push(performance.now() - sentMs)
          expectStatus(await written, 201)
          const results = member(changes, 'results')
          if (!Array.isArray(results) || member(results[0], 'id') !== id)
            throw new Error('The change is not the one made.')
        }
      } finally {
        writer.destroy()
        waiting.destroy()
      }
      const units = latenciesMs.length
      const totalMs = latenciesMs.reduce((sum, each) => sum + each, 0)
      return { units, unitsPerSecond: (1000 * units) / totalMs, generatorShare: 0, latenciesMs }
    },
  }
}

async function lastSequence(database: BenchDatabase, connection: HttpConnection): Promise<string> {
  const information = parsed(await connection.exchange(database.request('GET', '')), 200)
  return encodeURIComponent(String(member(information, 'update_seq')))
}

/** Documents that are written one after the other, before it is waited until all listeners have all of them. */
export const UPDATES = 200

/** Changes that reach listeners, while one client writes as fast as it is answered; until the last listener has the last one. */
export function listeners(database: BenchDatabase, count: number): Drive {
  let number = 0
  let gathering: Promise<Gathered> | undefined
  return {
    async drive(durationMs): Promise<Measure> {
      gathering ??= gather(database, count)
      const { audience, tell } = await gathering
      const cpuBefore = process.cpuUsage()
      const begun = performance.now()
      let units = 0
      do {
        const heard = audience.hear(UPDATES)
        for (let i = 0; i < UPDATES; i++) await tell(`told-${number++}`)
        await heard
        units += count * UPDATES
      } while (performance.now() - begun < durationMs)
      const passedMs = performance.now() - begun
      const { user, system } = process.cpuUsage(cpuBefore)
      return { units, unitsPerSecond: (1000 * units) / passedMs, generatorShare: (user + system) / 1000 / passedMs }
    },
    async end() {
      const gathered = await gathering
      gathered?.audience.leave()
      gathered?.writer.destroy()
    },
  }
}

interface Gathered {
  readonly audience: Audience
  readonly writer: HttpConnection
  /** Writes a document. */
  tell(id: string): Promise<void>
}

/** Listeners stay for all rounds: on some servers it takes a minute until they are there. */
async function gather(database: BenchDatabase, count: number): Promise<Gathered> {
  const writer = await HttpConnection.open(database.server)
  const tell = async (id: string) => expectStatus(await writer.exchange(database.request('PUT', `/${id}`, '{}')), 201)
  const audience = await Audience.gather(database, await lastSequence(database, writer), count)
  await audience.isThere((attempt) => tell(`gathered-${attempt}`))
  return { audience, writer, tell }
}

const ATTEMPTS = 40
const ATTEMPT_MS = 5000

/** What each change has in it once, and nothing else. */
const MARK = Buffer.from('"changes":[')

/** Connections that follow one database. */
class Audience {
  readonly #sockets: Socket[]
  #left = 0
  #heard: () => void = () => {}
  #failed: (error: Error) => void = () => {}

  static async gather(database: BenchDatabase, since: string, count: number): Promise<Audience> {
    const { host, port } = database.server
    const request = database.request('GET', `/_changes?feed=continuous&heartbeat=30000&since=${since}`)
    const sockets: Socket[] = []
    // One after the other: not every server lets many wait to be accepted.
    while (sockets.length < count) {
      const socket = connect({ host, port, noDelay: true })
      sockets.push(socket)
      await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
      socket.write(request, 'latin1')
    }
    return new Audience(sockets)
  }

  private constructor(sockets: Socket[]) {
    this.#sockets = sockets
    for (const socket of sockets) {
      socket.removeAllListeners()
      socket.on('error', (error) => this.#failed(error))
      socket.on('close', () => this.#failed(new Error('A feed ended too early.')))
      const marks = new MarkCounter()
      socket.on('data', (data) => {
        this.#left -= marks.countIn(data)
        if (this.#left <= 0) this.#heard()
      })
    }
  }

  /** Resolves when everybody got so many more changes. */
  hear(changes: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#left = changes * this.#sockets.length
      this.#heard = resolve
      this.#failed = reject
    })
  }

  /**
   * Resolves when everybody has heard something. Not every server begins a reply before it has something to say, and one
   * may lose what happens while a feed begins: so it is said again until everybody has it.
   */
  async isThere(say: (attempt: number) => Promise<void>): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const heard = this.hear(1).then(() => true)
      await say(attempt)
      const isHeard = await Promise.race([heard, delay(ATTEMPT_MS, false)])
      // What was said before may still be on its way to some.
      if (isHeard && attempt > 0) await delay(ATTEMPT_MS)
      if (isHeard) return
    }
    throw new Error('Some listeners hear nothing.')
  }

  leave(): void {
    this.#failed = () => {}
    for (const socket of this.#sockets) socket.destroy()
  }
}

/** Counts marks in what comes in pieces. */
class MarkCounter {
  #rest: Buffer = Buffer.alloc(0)

  countIn(data: Buffer): number {
    const text = this.#rest.length === 0 ? data : Buffer.concat([this.#rest, data])
    let count = 0
    let end = 0
    for (let at = text.indexOf(MARK); at >= 0; at = text.indexOf(MARK, end)) {
      count++
      end = at + MARK.length
    }
    // What may be the beginning of a mark.
    this.#rest = text.subarray(Math.max(end, text.length - MARK.length + 1))
    return count
  }
}
