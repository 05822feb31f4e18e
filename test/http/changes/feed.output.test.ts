import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Feed, sendFeed } from '../../../src/http/changes/feed.ts'
import { Deadlines } from '../../../src/runtime/deadlines.ts'
import { Connection } from '../../../src/wire/connection.ts'
import { Reply } from '../../../src/wire/reply.ts'

const NEVER_IDLE = { afterMs: 60_000, sendsHeartbeat: true }

/** A feed that sends nothing by itself until it ends. */
async function openFeed(version: string): Promise<{ client: Socket; feed: Feed; end: () => void }> {
  const { promise: opened, resolve: open } = Promise.withResolvers<Feed>()
  const { promise: ending, resolve: end } = Promise.withResolvers<void>()
  async function* texts() {
    yield 'first\n'
    await ending
    yield Buffer.from('last\n')
  }
  const server = createServer((socket) => {
    new Connection(socket, (_, reply) => {
      reply.begin(200, '')
      const feed = new Feed(reply, new Deadlines(), NEVER_IDLE)
      onTestFinished(() => feed[Symbol.dispose]())
      sendFeed(reply, texts(), feed)
      open(feed)
    })
  })
  onTestFinished(() => {
    server.close()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  onTestFinished(() => {
    client.destroy()
  })
  client.write(`GET / HTTP/${version}\r\nHost: x\r\nConnection: close\r\n\r\n`)
  await once(client, 'readable')
  return { client, feed: await opened, end }
}

async function bodyOf(client: Socket): Promise<string> {
  const all = await textOf(client)
  return all.slice(all.indexOf('\r\n\r\n') + 4)
}

describe('the output of a feed', () => {
  it('sends other output in order with the texts', async () => {
    const { client, feed, end } = await openFeed('1.1')
    expect(feed.push(Buffer.from('beside\n'))).toBe(true)
    end()
    expect(await bodyOf(client)).toBe('6\r\nfirst\n\r\n7\r\nbeside\n\r\n5\r\nlast\n\r\n0\r\n\r\n')
  })

  it('sends the head with the first text, and the last one with the end, each in one write', async () => {
    const writes: string[] = []
    let held = 0
    let joined = ''
    const release = () => {
      if (--held > 0 || joined === '') return
      writes.push(joined)
      joined = ''
    }
    const reply = new Reply(
      {
        isOpen: true,
        canKeepAlive: true,
        write(bytes) {
          held++
          joined += bytes
          release()
          return true
        },
        cork: () => held++,
        uncork: release,
        drained: async () => {},
        done() {},
        destroy() {},
      },
      { isHeadOnly: false, isHttp10: false, keepsAlive: true },
    )
    async function* texts() {
      yield 'first\n'
      await nextTurn()
      yield Buffer.from('last\n')
      yield 'closing\n'
    }
    reply.begin(200, '')
    await sendFeed(reply, texts())
    await nextTurn()
    expect(writes).toEqual([
      expect.stringMatching(/^HTTP.*\r\n\r\n6\r\nfirst\n\r\n$/s),
      '5\r\nlast\n\r\n8\r\nclosing\n\r\n0\r\n\r\n',
    ])
    expect(held).toBe(0)
  })

  it('is not chunked for HTTP/1.0 clients', async () => {
    const { client, feed, end } = await openFeed('1.0')
    expect(feed.push(Buffer.from('beside\n'))).toBe(true)
    end()
    expect(await bodyOf(client)).toBe('first\nbeside\nlast\n')
  })

  it('returns a promise when the client must drain first', async () => {
    const { client, feed, end } = await openFeed('1.1')
    const text = Buffer.alloc(1024 * 1024, 'x')
    let sent = 0
    let written: boolean | Promise<void> = true
    // More than the system keeps for a connection.
    for (; written === true && sent < 64; sent++) written = feed.push(text)
    expect(written).toBeInstanceOf(Promise)
    const whole = bodyOf(client)
    await written
    end()
    const chunk = `100000\r\n${text}\r\n`
    expect((await whole) === `6\r\nfirst\n\r\n${chunk.repeat(sent)}5\r\nlast\n\r\n0\r\n\r\n`).toBe(true)
  })

  it('sends nothing to a client that is gone', async () => {
    const { client, feed } = await openFeed('1.1')
    client.destroy()
    await expect.poll(() => feed.push(Buffer.from('x'))).toBe(false)
  })
})
