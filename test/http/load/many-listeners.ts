/** Many clients on the feed of one database: what they cost while nothing happens, and that an update reaches them all. */
import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Client, TestDatabase } from '../../support/client.ts'
import { MeasuredServer } from '../../support/measured-server.ts'

export interface ListenerFigures {
  /** What the server holds for a connection that waits for its next request, and for one on a feed. */
  readonly idleConnectionBytes: number
  readonly listenerBytes: number
  /** How long it took until the last listener had each of the updates. */
  readonly updateMs: readonly number[]
}

export async function listenTogether(listeners: number, updates: number): Promise<ListenerFigures> {
  const server = await MeasuredServer.start()
  const db = await server.client.database()
  await db.save('first', {})
  // What is made once, at the first request of each kind, is not for the listeners to pay.
  await openAll(server.client, 20, '/')
  await openAll(server.client, 20, feedPath(db))
  const before = await server.heldBytes()
  await openAll(server.client, listeners, '/')
  const withIdle = await server.heldBytes()
  const feeds = await openAll(server.client, listeners, feedPath(db))
  const withListeners = await server.heldBytes()
  const updateMs: number[] = []
  for (let update = 0; update < updates; update++) {
    const begun = performance.now()
    const heard = Promise.all(feeds.map((feed) => feed.receives(`"update-${update}"`)))
    await db.save(`update-${update}`, {})
    await heard
    updateMs.push(performance.now() - begun)
  }
  return {
    idleConnectionBytes: (withIdle - before) / listeners,
    listenerBytes: (withListeners - withIdle) / listeners,
    updateMs,
  }
}

function feedPath(db: TestDatabase): string {
  return `/${db.name}/_changes?feed=continuous&since=now&heartbeat=60000`
}

/** Connections are opened some at a time, as many as a listener lets wait. */
const OPENED_AT_ONCE = 50

async function openAll(client: Client, count: number, path: string): Promise<BareFeed[]> {
  const feeds: BareFeed[] = []
  while (feeds.length < count) {
    const some = Array.from({ length: Math.min(OPENED_AT_ONCE, count - feeds.length) }, () =>
      BareFeed.open(client, path),
    )
    feeds.push(...(await Promise.all(some)))
  }
  return feeds
}

/** As little of a client as will do: there are thousands of them in this process. */
class BareFeed {
  readonly #socket: Socket
  #text = ''
  #wanted: { readonly text: string; readonly resolve: () => void } | undefined

  static async open({ url }: Client, path: string): Promise<BareFeed> {
    const socket = connect(Number(url.port), url.hostname)
    onTestFinished(() => {
      socket.destroy()
    })
    const feed = new BareFeed(socket)
    socket.write(`GET ${path} HTTP/1.1\r\nHost: ${url.host}\r\n\r\n`)
    await feed.receives('HTTP/1.1 200 OK\r\n')
    return feed
  }

  private constructor(socket: Socket) {
    this.#socket = socket
    this.#socket.on('data', (data) => {
      this.#text += data.toString('latin1')
      this.#look()
    })
  }

  receives(text: string): Promise<void> {
    return new Promise((resolve) => {
      this.#wanted = { text, resolve }
      this.#look()
    })
  }

  #look(): void {
    if (!this.#wanted || !this.#text.includes(this.#wanted.text)) return
    const { resolve } = this.#wanted
    this.#wanted = undefined
    this.#text = ''
    resolve()
  }
}
