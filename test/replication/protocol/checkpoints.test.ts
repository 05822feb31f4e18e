/** Checkpoints of two replications that write the same log. */
import { expect, it } from 'vitest'
import { conflict } from '../../../src/document/request-error.ts'
import type { Peer, StoredLog } from '../../../src/replication/peers/peer.ts'
import { Checkpoints } from '../../../src/replication/protocol/checkpoints.ts'
import { SessionStatistics } from '../../../src/replication/protocol/replication-log.ts'

/** A peer whose log is a plain object. */
class LogPeer implements Peer {
  readonly shown = ''
  stored: StoredLog | undefined
  #writes = 0

  async information() {
    return { updateSequence: 0, instanceStartTime: undefined }
  }

  async readLog(): Promise<StoredLog | undefined> {
    return this.stored
  }

  async writeLog(_id: string, log: object, revision: string | undefined): Promise<string> {
    if (revision !== this.stored?.revision) throw conflict()
    this.#writes++
    this.stored = { revision: `0-${this.#writes}`, members: { ...log } }
    return this.stored.revision
  }

  async flush() {
    return undefined
  }
}

function session(id: string, source: LogPeer, target: LogPeer, instanceStartTime: string): Checkpoints {
  const logged = {
    source: { peer: source, instanceStartTime, revision: source.stored?.revision },
    target: { peer: target, instanceStartTime, revision: target.stored?.revision },
  }
  const history = source.stored && target.stored ? source.stored.members.history : undefined
  const earlier = Array.isArray(history) ? history : []
  const begun = { id, startTime: '', startSequence: 0, statistics: new SessionStatistics() }
  return new Checkpoints('log', logged, begun, earlier)
}

it.each(['0', '1700000000'])('are written over each other where the start time is %s', async (startTime) => {
  const [source, target] = [new LogPeer(), new LogPeer()]
  const first = session('a', source, target, startTime)
  await first.record(5, 0)
  const second = session('b', source, target, startTime)
  await second.record(6, 0)
  await first.record(7, 0)
  await second.record(8, 0)
  expect(target.stored?.members).toMatchObject({ session_id: 'b', source_last_seq: 8 })
  expect(source.stored?.members).toEqual(target.stored?.members)
})

it('are not written over the log of a database that was created again', async () => {
  const [source, target] = [new LogPeer(), new LogPeer()]
  const first = session('a', source, target, '0')
  await first.record(5, 0)
  target.stored = undefined
  await expect(first.record(6, 0)).rejects.toThrow('checkpoint document')
  await session('b', source, target, '0').record(1, 0)
  await expect(first.record(7, 0)).rejects.toThrow('checkpoint document')
  expect(target.stored).toMatchObject({ members: { session_id: 'b', source_last_seq: 1 } })
})
