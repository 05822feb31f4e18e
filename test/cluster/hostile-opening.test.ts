/** Clients of the socket for commands that do not keep to the protocol, or stop in the middle of it. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { basename, join } from 'node:path'
import { serialize } from 'node:v8'
import { expect, it, onTestFinished } from 'vitest'
import { Channel, NodeUnreachableError } from '../../src/cluster/channel.ts'
import { OpeningClient } from '../../src/cluster/opening-socket.ts'
import { listStores } from '../../src/storage/files/store-listing.ts'
import type { OpeningReply } from '../../src/storage/leases/file-openings.ts'
import { processIdentity } from '../../src/storage/leases/process-records.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

async function started(openMs = 120_000) {
  const dir = await temporaryFolder()
  const settings = { lmdb: { open_timeout: String(openMs) } }
  const service = await startService({ dir, settings })
  const put = async (path: string) => {
    const headers = { 'Content-Type': 'application/json' }
    const reply = await fetch(new URL(path, service.url), { method: 'PUT', headers, body: '{}' })
    await reply.text()
    return reply.status
  }
  expect(await put('db')).toBe(201)
  const [place] = (await listStores(dir)).filter(({ name }) => name === 'db')
  const callOf = ({ pid = 0 }: ChildProcess) => {
    return { kind: 'databases', name: 'db', fileName: basename(place!.path), pid, identity: processIdentity(pid) }
  }
  return { dir, service, put, callOf }
}

async function connected(dir: string): Promise<Socket> {
  const socket = connect(join(dir, '.servers', 'opening.sock'))
  onTestFinished(() => {
    socket.destroy()
  })
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

function framed(body: Uint8Array): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(body.length)
  return Buffer.concat([length, body])
}

/** A process that may be killed, and does not know that it opens files. */
function bystander(): ChildProcess {
  const child = spawn('sleep', ['600'])
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  return child
}

it.each<[string, Uint8Array]>([
  ['text', Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(1000))],
  ['a frame of rubbish', framed(Buffer.from('rubbish'))],
  ['an empty frame', framed(Buffer.alloc(0))],
  ['a frame that is nothing', framed(serialize(null))],
  ['a frame that is a number', framed(serialize(1))],
  ['a call without a number', framed(serialize({ type: 'call', message: {} }))],
  ['a signal that is nothing', framed(serialize({ type: 'signal', message: undefined }))],
  ['a frame that is too long', framed(Buffer.alloc(1024 * 1024))],
])('closes the connection of a client that sends %s', async (_, bytes) => {
  const { dir, put } = await started()
  const socket = await connected(dir)
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.resume().write(bytes)
  await closed
  expect(await put('db/document')).toBe(201)
})

it.each<[string, unknown]>([
  ['nothing', undefined],
  ['another kind', { kind: 'constructor', name: 'db', fileName: 'db.1.mdb', pid: process.pid, identity: '' }],
  ['no names', { kind: 'databases', pid: process.pid, identity: '' }],
  ['every process', { kind: 'databases', name: 'db', fileName: 'db.1.mdb', pid: -1, identity: undefined }],
])('refuses a call for %s', async (_, message) => {
  const { dir, put } = await started()
  const channel = new Channel(await connected(dir), { signal: () => {}, call: async () => {}, closed: () => {} })
  await expect(channel.call(message)).rejects.toThrow('The call is unknown.')
  expect(await put('db/document')).toBe(201)
})

it('serves others while hundreds are connected and send half a frame, or nothing', async () => {
  const { dir, put } = await started()
  const sockets: Socket[] = []
  for (let i = 0; i < 300; i++) {
    const socket = await connected(dir)
    if (i % 2 === 0) socket.write(Buffer.from([0, 0, 0]))
    sockets.push(socket)
  }
  expect(await put('db/document')).toBe(201)
  // There is no place for another one: it is told at once, and tries again.
  const client = new OpeningClient(dir)
  onTestFinished(() => client.close())
  const asked = () => client.open('databases', { name: 'none', path: join(dir, 'none.1.mdb') }, () => {})
  await expect(asked()).rejects.toThrow(NodeUnreachableError)
  for (const socket of sockets) socket.destroy()
  await expect.poll(() => asked().catch(() => 'refused')).toBe('gone')
})

it('commits nothing while a process that was disconnected may open the file, and kills it in the end', async () => {
  const { dir, put, callOf } = await started(1000)
  const child = bystander()
  const ended = once(child, 'exit')
  const socket = await connected(dir)
  const channel = new Channel(socket, { signal: () => {}, call: async () => {}, closed: () => {} })
  const reply = (await channel.call(callOf(child))) as OpeningReply
  expect(reply).toMatchObject({ number: expect.any(Number) })
  channel.destroy()
  expect(await put('db/document')).toBe(201)
  expect(processIdentity(child.pid ?? 0)).toBe(undefined)
  expect(await ended).toEqual([null, 'SIGKILL'])
})

it('a server that closes waits until nobody opens a file any more', async () => {
  const { dir, service, callOf } = await started()
  const channel = new Channel(await connected(dir), { signal: () => {}, call: async () => {}, closed: () => {} })
  const { number } = (await channel.call(callOf(bystander()))) as Exclude<OpeningReply, string>
  let isClosed = false
  const closed = service.close().then(() => {
    isClosed = true
  })
  // It has come that far when it takes no more connections.
  await expect.poll(() => connected(dir).then(String, () => 'refused')).toBe('refused')
  expect(isClosed).toBe(false)
  channel.send({ number })
  await closed
})
