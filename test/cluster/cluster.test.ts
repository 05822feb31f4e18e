import { fork } from 'node:child_process'
import { once } from 'node:events'
import { createConnection, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { CallFailedError, Channel, type ChannelHandler, NodeUnreachableError } from '../../src/cluster/channel.ts'
import { ALONE } from '../../src/cluster/cluster.ts'
import { Membership, type MembershipOptions } from '../../src/cluster/membership.ts'
import { type HubOptions, PrimaryHub } from '../../src/cluster/primary-hub.ts'
import { FileOpenings, type Permission } from '../../src/storage/leases/file-openings.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const SILENT: ChannelHandler = { signal: () => {}, call: async () => undefined, closed: () => {} }

async function socketPair(): Promise<[Socket, Socket]> {
  const path = join(await temporaryFolder(), 'pair.sock')
  const server = createServer().listen(path)
  await once(server, 'listening')
  const accepted = once(server, 'connection')
  const near = createConnection(path)
  const [far] = (await accepted) as [Socket]
  onTestFinished(() => {
    near.destroy()
    far.destroy()
    server.close()
  })
  return [near, far]
}

async function socketPath(): Promise<string> {
  return join(await temporaryFolder(), 'hub.sock')
}

async function openHub(options: Partial<HubOptions> & { path: string }): Promise<PrimaryHub> {
  const hub = await PrimaryHub.open({
    term: 1,
    welcome: () => 'state',
    signal: () => {},
    call: async () => undefined,
    left: () => {},
    stuck: () => {},
    ...options,
  })
  onTestFinished(() => hub.close())
  return hub
}

function joined(options: Partial<MembershipOptions> & { path: string }): Membership {
  const membership = new Membership({
    welcome: async () => {},
    signal: () => {},
    call: async () => undefined,
    lost: () => {},
    ...options,
  })
  onTestFinished(() => membership.close())
  return membership
}

const STANDSTILL_MS = 2000

/** As a process that is stopped, or gets no processor. */
function standStill(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, STANDSTILL_MS)
}

describe('a channel', () => {
  it('delivers signals of any size in the order in which they were sent', async () => {
    const [near, far] = await socketPair()
    const received: unknown[] = []
    const sender = new Channel(near, SILENT)
    new Channel(far, { ...SILENT, signal: (message) => received.push(message) })
    const sent = Array.from({ length: 300 }, (_, i) => ({ i, bytes: Buffer.alloc(i % 7 === 0 ? 100_000 : i, i) }))
    for (const each of sent) sender.send(each)
    await until(async () => received.length === sent.length)
    expect(received.map((each) => (each as { i: number }).i)).toEqual(sent.map(({ i }) => i))
    expect(received[294]).toEqual({ i: 294, bytes: sent[294]!.bytes })
  })

  it('reads an answer that came in time while this process stood still', async () => {
    const [near, far] = await socketPair()
    const asking = new Channel(near, SILENT)
    const call = async () => {
      // After the answer is written, and before it is read.
      setImmediate(standStill)
      return 'answer'
    }
    new Channel(far, { ...SILENT, call })
    expect(await asking.call('question', { timeoutMs: STANDSTILL_MS / 2 })).toBe('answer')
  })

  it('reads frames however they are split', async () => {
    const [near, far] = await socketPair()
    const pieces: Buffer[] = []
    const [otherNear, otherFar] = await socketPair()
    new Channel(near, SILENT).send('one')
    far.on('data', (bytes) => pieces.push(bytes))
    await until(async () => pieces.length > 0)
    const received: unknown[] = []
    new Channel(otherFar, { ...SILENT, signal: (message) => received.push(message) })
    for (const byte of Buffer.concat([...pieces, ...pieces])) otherNear.write(Buffer.of(byte))
    await until(async () => received.length === 2)
    expect(received).toEqual(['one', 'one'])
  })

  it('answers calls, with the reason where one failed', async () => {
    const [near, far] = await socketPair()
    const caller = new Channel(near, SILENT)
    new Channel(far, {
      ...SILENT,
      call: async (message) => {
        if (message === 'bad') throw new Error('It is bad.')
        return [message, new Map([['a', 1]])]
      },
    })
    expect(await caller.call('good')).toEqual(['good', new Map([['a', 1]])])
    const failing = caller.call('bad')
    await expect(failing).rejects.toThrow(CallFailedError)
    await expect(failing).rejects.toThrow('It is bad.')
  })

  it('ends a call at its deadline, at once when the caller gives up, and when the other node is gone', async () => {
    const [near, far] = await socketPair()
    const caller = new Channel(near, SILENT)
    const cancelled: unknown[] = []
    new Channel(far, {
      ...SILENT,
      call: (_, signal) => {
        signal.addEventListener('abort', () => cancelled.push(signal.reason))
        return new Promise(() => {})
      },
    })
    await expect(caller.call('slow', { timeoutMs: 20 })).rejects.toThrow(NodeUnreachableError)
    await expect(caller.call('slow', { signal: AbortSignal.abort(new Error('No more.')) })).rejects.toThrow('No more.')
    await until(async () => cancelled.length === 1)
    const waiting = caller.call('slow')
    far.destroy()
    await expect(waiting).rejects.toThrow(NodeUnreachableError)
    await expect(caller.call('more')).rejects.toThrow(NodeUnreachableError)
  })
})

describe('nodes of one machine', () => {
  it('gives a secondary the state first, and then every signal in order', async () => {
    const path = await socketPath()
    let state = 0
    const hub = await openHub({ path, welcome: () => state })
    const heard: unknown[] = []
    const published = Promise.withResolvers<void>()
    const membership = joined({
      path,
      welcome: async (begun) => {
        // Signals that come while the state is taken over come after it.
        await published.promise
        heard.push(begun)
      },
      signal: (message) => heard.push(message),
    })
    for (; hub.size === 0; ) await new Promise((resolve) => setImmediate(resolve))
    for (state = 1; state <= 50; state++) hub.publish(() => state)
    published.resolve()
    await membership.connected()
    await until(async () => heard.at(-1) === 50)
    expect(heard).toEqual(Array.from({ length: 51 }, (_, i) => i))
  })

  it('waits until every secondary has acknowledged a notice', async () => {
    const path = await socketPath()
    const hub = await openHub({ path })
    expect(hub.announce('nobody is there')).toBeUndefined()
    const taken: string[] = []
    const members = ['a', 'b', 'c'].map((name, i) =>
      joined({
        path,
        call: async (notice) => {
          await new Promise((resolve) => setTimeout(resolve, 10 * i))
          taken.push(`${name} ${notice}`)
          return name
        },
      }),
    )
    await Promise.all(members.map((each) => each.connected()))
    await hub.announce('news')
    expect(taken.sort()).toEqual(['a news', 'b news', 'c news'])
    expect((await hub.gather('who')).sort()).toEqual(['a', 'b', 'c'])
  })

  it('gets the whole state again after a lost connection', async () => {
    const path = await socketPath()
    const first = await openHub({ path, welcome: () => 'first' })
    const heard: unknown[] = []
    const membership = joined({
      path,
      welcome: async (state) => void heard.push(state),
      lost: () => heard.push('lost'),
    })
    await membership.connected()
    await first.close()
    await until(async () => heard.includes('lost'))
    await expect(membership.call('anything')).rejects.toThrow(NodeUnreachableError)
    await openHub({ path, term: 2, welcome: () => 'second' })
    await membership.connected()
    expect(heard).toEqual(['first', 'lost', 'second'])
    expect(membership.term).toBe(2)
  })

  it('ignores a primary of an earlier term', async () => {
    const path = await socketPath()
    const current = await openHub({ path, term: 7 })
    const membership = joined({ path })
    await membership.connected()
    await current.close()
    await until(async () => !membership.isConnected)
    const earlier = await openHub({ path, term: 6 })
    let tries = 0
    const server = earlier
    await until(async () => {
      if (server.size > 0) tries++
      return tries > 2
    })
    expect(membership.isConnected).toBe(false)
    expect(membership.term).toBe(7)
  })

  it('continues without a node that is killed, and ends one that hangs', async () => {
    const path = await socketPath()
    const left: object[] = []
    const stuck: object[] = []
    const hub = await openHub({
      path,
      noticeTimeoutMs: 1000,
      left: (member) => left.push(member),
      stuck: (member) => stuck.push(member),
    })
    const children = await Promise.all(
      [0, 1].map(async () => {
        const child = fork(join(import.meta.dirname, 'member-process.ts'), [path])
        onTestFinished(() => void child.kill('SIGKILL'))
        await once(child, 'message')
        return child
      }),
    )
    await until(async () => hub.size === 2)
    await hub.announce('first')
    // Neither of them answers the second one: one is killed meanwhile, the other one is too late.
    const announced = hub.announce('second')
    children[0]?.kill('SIGKILL')
    await until(async () => left.length === 1)
    expect(stuck).toEqual([])
    await announced
    expect(stuck).toHaveLength(1)
    expect(stuck[0]).not.toBe(left[0])
  })
})

it('a process that opened a file in time is not killed where the server stood still meanwhile', async () => {
  const [near, far] = await socketPair()
  const openings = new FileOpenings(() => STANDSTILL_MS / 2)
  const opener = {}
  let kills = 0
  const reply = await openings.begin(opener, {
    stores: { pauseCommits: async () => () => {} },
    place: { name: 'store', path: 'store.1.mdb' },
    signal: new AbortController().signal,
    kill: () => kills++,
  })
  const opened = once(near.resume(), 'data').then(() => openings.end(opener, (reply as Permission).number))
  await nextTurn()
  far.write('opened')
  standStill()
  await opened
  await nextTurn()
  expect(kills).toBe(0)
  expect(openings.idle()).toBe(undefined)
})

describe('a node that hangs', () => {
  async function hanging(path: string): Promise<void> {
    const child = fork(join(import.meta.dirname, 'member-process.ts'), [path])
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child, 'message')
    child.kill('SIGSTOP')
  }

  it('is ended when it does not answer a heartbeat', async () => {
    const path = await socketPath()
    const stuck: object[] = []
    const heartbeat = { intervalMs: 20, timeoutMs: 1000 }
    const hub = await openHub({ path, heartbeat, stuck: (member) => stuck.push(member) })
    const membership = joined({ path })
    await hanging(path)
    await until(async () => stuck.length === 1)
    expect(hub.size).toBe(1)
    expect(membership.isConnected).toBe(true)
  })

  it('is ended when its queue of signals is full', async () => {
    const path = await socketPath()
    const stuck: object[] = []
    const hub = await openHub({ path, stuck: (member) => stuck.push(member) })
    await hanging(path)
    await until(async () => hub.size === 1)
    const signal = Buffer.alloc(1024 * 1024)
    for (let sent = 0; sent < 64 && hub.size > 0; sent++) hub.publish(() => signal)
    expect(hub.size).toBe(0)
    expect(stuck).toHaveLength(1)
  })
})

it('costs one node nothing', async () => {
  expect(ALONE.announce('news')).toBeUndefined()
  expect(await ALONE.gather('who')).toEqual([])
})
