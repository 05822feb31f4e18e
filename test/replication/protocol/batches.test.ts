/** Batches of changes: they are full, and the next one is read while the target flushes the last one. */
import { expect, it } from 'vitest'
import type { DocumentWriter, SourcePeer, TargetPeer } from '../../../src/replication/peers/peer.ts'
import { Replication } from '../../../src/replication/replication.ts'
import { parseReplicationRequest } from '../../../src/replication/replication-request.ts'
import { systemClock } from '../../../src/runtime/clock.ts'
import { silentLog } from '../../../src/runtime/log/log.ts'
import { serverOfFile } from '../../support/client.ts'
import { until } from '../../support/until.ts'
import { ScriptedPeer } from '../peers/scripted-peer.ts'
import { replicate } from '../peers.ts'

const server = serverOfFile()

it('are full but for the last one, wherever pages of the feed end', async () => {
  const peer = await ScriptedPeer.start(() => undefined)
  const source = await server().database()
  const docs = Array.from({ length: 1250 }, (_, i) => ({ _id: `${String(i).padStart(6, '0')}-${'x'.repeat(100)}` }))
  await source.post('_bulk_docs', { docs })
  await replicate(server(), { source: source.name, target: peer.url, worker_batch_size: 500 })
  const sizes = peer.to('_revs_diff').map(({ body }) => Object.keys(JSON.parse(body)).length)
  expect(sizes.sort()).toEqual([250, 500, 500])
})

const OPTIONS = {
  workerProcesses: 1,
  workerBatchSize: 1,
  httpConnections: 1,
  connectionTimeoutMs: 1000,
  retriesPerRequest: 0,
  checkpointIntervalMs: 60_000,
  useCheckpoints: true,
}

it('are read while the target flushes the one before, and recorded when they are on disk', async () => {
  const read: string[] = []
  const recorded: unknown[] = []
  const peer = {
    shown: '',
    information: async () => ({ updateSequence: 3, instanceStartTime: undefined }),
    readLog: async () => undefined,
    writeLog: async (_: string, log: object) => {
      recorded.push(Reflect.get(log, 'source_last_seq'))
      return '0-1'
    },
    flush: async () => undefined,
  }
  const source: SourcePeer = {
    ...peer,
    async *changes() {
      for (let i = 1; i <= 3; i++) yield { changes: [{ id: `${i}`, revisions: ['1-a'] }], lastSequence: i }
    },
    filterSource: async () => '',
    async *read(wanted) {
      for (const { id } of wanted) read.push(id)
      yield []
    },
    async *stream() {},
  }
  const disk = Promise.withResolvers<void>()
  const decided = Promise.withResolvers<void>()
  const finish: DocumentWriter['finish'] = async (onFlushing) => {
    // The second batch is still being decided: it keeps its slot, and the third one is not read.
    if (read.length === 2) await decided.promise
    onFlushing?.()
    await disk.promise
  }
  const target: TargetPeer = {
    ...peer,
    missing: async (changes) => changes.map((each) => ({ ...each, known: [] })),
    writer: () => ({ add: () => undefined, finish, abandon: () => {} }),
  }
  const user = { name: null, roles: ['_admin'] }
  const request = parseReplicationRequest({ source: 'a', target: 'b' }, user, OPTIONS)
  const peers = { source: async () => source, target: async () => target }
  const id = { base: 'log', extension: '', full: 'log' }
  const replication = new Replication(id, request, { peers, clock: systemClock, log: silentLog })
  const running = replication.run(new AbortController().signal)
  await until(() => read.length === 2)
  expect(read).toEqual(['1', '2'])
  decided.resolve()
  await until(() => read.length === 3)
  expect(replication.progress().through_seq).toBe(0)
  expect(recorded).toEqual([])
  disk.resolve()
  await running
  expect(recorded).toEqual([3, 3])
})
