/** What a batch keeps from compaction is released, whatever becomes of it. */
import { expect, it } from 'vitest'
import type { DocumentWriter, SourcePeer, TargetPeer } from '../../../src/replication/peers/peer.ts'
import type { TransferredDocument } from '../../../src/replication/peers/transferred-document.ts'
import { transferBatch } from '../../../src/replication/protocol/batch-transfer.ts'
import { SessionStatistics } from '../../../src/replication/protocol/replication-log.ts'

/** Transfers one document; gives how often it was released. */
async function released(add: DocumentWriter['add'], controller = new AbortController()): Promise<number> {
  let releases = 0
  const document: TransferredDocument = {
    id: 'a',
    revision: '1-a',
    sizeBytes: 1,
    attachments: [],
    isRepeatable: true,
    stored: () => ({ path: { start: 1, hashes: ['a'] }, deleted: false, body: Buffer.from('{}'), attachments: [] }),
    text: () => Buffer.from('{}'),
    inlineText: () => undefined,
    checkContents: () => {},
    release: () => {
      releases++
    },
  }
  const peer = {
    shown: '',
    information: async () => ({ updateSequence: 0, instanceStartTime: undefined }),
    readLog: async () => undefined,
    writeLog: async () => '',
    flush: async () => undefined,
  }
  const source: SourcePeer = {
    ...peer,
    async *changes() {},
    filterSource: async () => '',
    async *read() {
      if (!controller.signal.aborted) controller.signal.dispatchEvent(new Event('opened'))
      yield [document]
    },
    async *stream() {},
  }
  const target: TargetPeer = {
    ...peer,
    missing: async () => [{ id: 'a', revisions: ['1-a'], known: [] }],
    writer: () => ({ add, finish: async () => {}, abandon: () => {} }),
  }
  const transfer = transferBatch([{ id: 'a', revisions: ['1-a'] }], {
    source,
    target,
    statistics: new SessionStatistics(),
    retries: { retries: 0 },
    signal: controller.signal,
    onProgress: () => {},
    onRefused: () => {},
  })
  await expect(transfer).rejects.toThrow()
  return releases
}

it('when the replication ends between reading and writing', async () => {
  const controller = new AbortController()
  controller.signal.addEventListener('opened', () => controller.abort(new Error('over')))
  expect(await released(() => undefined, controller)).toBe(1)
})

it('when the target cannot take the document', async () => {
  expect(await released(() => Promise.reject(new Error('gone')))).toBe(1)
})
