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

/** Changes that reach listeners: one document after the other is written, and each time all listeners are waited for. */
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
        const id = `told-${number++}`
        const heard = audience.hears(`"${id}"`)
        await tell(id)
        await heard
        units += count
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

const ATTEMPTS = 120
const ATTEMPT_MS = 1000

/** Connections that follow one database. */
class Audience {
  readonly #sockets: Socket[]
  #text = ''
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
      let isCounted = ''
      socket.on('data', (data) => {
        // A change comes in one piece: it is small.
        if (isCounted === this.#text || !data.includes(this.#text)) return
        isCounted = this.#text
        if (--this.#left === 0) this.#heard()
      })
    }
  }

  /** Resolves when everybody got this text. */
  hears(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#text = text
      this.#left = this.#sockets.length
      this.#heard = resolve
      this.#failed = reject
    })
  }

  /**
   * Resolves when everybody has heard something. Not every server begins a reply before it has something to say, and one
   * may lose what happens while a feed begins: so it is said again until the last one has it.
   */
  async isThere(say: (attempt: number) => Promise<void>): Promise<void> {
    let isHeard = false
    const heard = this.hears('"gathered').then(() => {
      isHeard = true
    })
    for (let attempt = 0; !isHeard; attempt++) {
      if (attempt === ATTEMPTS) throw new Error(`${this.#left} listeners heard nothing.`)
      await say(attempt)
      await Promise.race([heard, delay(ATTEMPT_MS)])
    }
  }

  leave(): void {
    this.#failed = () => {}
    for (const socket of this.#sockets) socket.destroy()
  }
}
