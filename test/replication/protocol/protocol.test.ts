/** The parts of the protocol that need no server: logs, progress, ids, requests, lines of feeds. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonValue } from '../../../src/encoding/json/json-value.ts'
import { jsonLines } from '../../../src/replication/client/json-lines.ts'
import { retried, TransientError } from '../../../src/replication/client/retries.ts'
import { progressOf, ThroughSequence } from '../../../src/replication/peers/sequence.ts'
import {
  commonAncestry,
  historyEntry,
  logOf,
  SessionStatistics,
} from '../../../src/replication/protocol/replication-log.ts'
import { replicationId } from '../../../src/replication/replication-id.ts'
import { parseReplicationRequest } from '../../../src/replication/replication-request.ts'
import type { ReplicationOptions } from '../../../src/replication/replication-settings.ts'

const entry = (session_id: string, recorded_seq: JsonValue) => ({ session_id, recorded_seq })
const log = (...history: ReturnType<typeof entry>[]): Record<string, JsonValue> => ({
  session_id: history[0]?.session_id ?? '',
  source_last_seq: history[0]?.recorded_seq ?? 0,
  history,
})

describe('the common ancestry of two logs', () => {
  it('is the last session where both agree', () => {
    const same = log(entry('b', 20), entry('a', 10))
    expect(commonAncestry(same, same)).toEqual({ start: 20, history: same.history })
  })

  it('does not exist when one log is missing', () => {
    expect(commonAncestry(log(entry('a', 10)), undefined)).toEqual({ start: 0, history: [] })
    expect(commonAncestry(undefined, log(entry('a', 10)))).toEqual({ start: 0, history: [] })
  })

  it('is the newest session of the source that the target knows', () => {
    const source = log(entry('b', '20-x'), entry('a', '10-x'))
    const target = log(entry('c', '30-x'), entry('b', '20-x'), entry('a', '10-x'))
    expect(commonAncestry(source, target).start).toBe('20-x')
  })

  it('is the newest session of the target that the source knows', () => {
    const source = log(entry('d', 40), entry('b', 20), entry('a', 10))
    const target = log(entry('b', 20), entry('a', 10))
    expect(commonAncestry(source, target).start).toBe(20)
  })

  it('does not exist when no session is known to both', () => {
    expect(commonAncestry(log(entry('a', 10)), log(entry('b', 10)))).toEqual({ start: 0, history: [] })
  })

  it('is found at once in logs of any length', () => {
    const entries = (name: string) => Array.from({ length: 100_000 }, (_, i) => entry(`${name}${i}`, i))
    const begunMs = process.cpuUsage().user
    expect(commonAncestry(log(...entries('a')), log(...entries('b'))).start).toBe(0)
    expect(process.cpuUsage().user - begunMs).toBeLessThan(5_000_000)
  })

  it('is found in logs that other servers wrote, whatever else is in them', () => {
    const odd = { session_id: 'x', history: 'none' }
    expect(commonAncestry(odd, odd)).toEqual({ start: 0, history: [] })
    expect(commonAncestry({ history: [null, 3] }, { history: [[], {}] })).toEqual({ start: 0, history: [] })
  })
})

describe('a log', () => {
  it('has one entry a session, fifty at most', () => {
    const statistics = new SessionStatistics()
    const session = { id: 's', startTime: 'x', startSequence: 0, statistics }
    const earlier = Array.from({ length: 60 }, (_, i) => entry(`e${i}`, i))
    const first = logOf(historyEntry(session, 5, 0), earlier)
    const second = logOf(historyEntry(session, 9, 0), first.history)
    expect(second.history).toHaveLength(50)
    expect(second.history.slice(0, 2)).toMatchObject([{ session_id: 's', recorded_seq: 9 }, { session_id: 'e0' }])
    expect(second.source_last_seq).toBe(9)
  })
})

describe('how far everything is done', () => {
  it('never covers a batch that is not done, in whatever order they finish', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 12 }).chain((count) =>
          fc.shuffledSubarray(
            Array.from({ length: count }, (_, i) => i),
            { minLength: count, maxLength: count },
          ),
        ),
        (order) => {
          const through = new ThroughSequence(0)
          const done = order.map((_, i) => through.begin(i + 1))
          const finished = new Set<number>()
          for (const batch of order) {
            done[batch]?.()
            finished.add(batch)
            let expected = 0
            while (finished.has(expected)) expected++
            expect(through.value).toBe(expected)
          }
        },
      ),
    )
  })

  it('is reported in percent when sequences are numbers', () => {
    expect([progressOf(5, 10), progressOf(10, 10), progressOf(0, 0), progressOf(12, 10)]).toEqual([50, 100, 100, 100])
    expect(progressOf('5-x', '10-y')).toBeNull()
  })
})

const defaults: ReplicationOptions = {
  workerProcesses: 4,
  workerBatchSize: 500,
  httpConnections: 20,
  connectionTimeoutMs: 30_000,
  retriesPerRequest: 10,
  checkpointIntervalMs: 5000,
  useCheckpoints: true,
}
const user = { name: 'ann', roles: ['b', 'a'] }
const parse = (body: object) => parseReplicationRequest(body, user, defaults)
const idOf = (body: object) => replicationId(parse({ source: 'a', target: 'b', ...body }), 'server', undefined)

describe('the id of a replication', () => {
  it('is the same for equal requests, whatever their tuning and credentials', () => {
    const url = { source: 'http://joe:pw@example.com/db' }
    expect(idOf({ ...url, worker_processes: 1, since_seq: 3, proxy: 'http://p:1' })).toEqual(idOf(url))
    expect(idOf({ source: 'http://joe:other@example.com/db/' })).toEqual(idOf(url))
    expect(
      idOf({ source: { url: 'http://example.com/db', auth: { basic: { username: 'joe', password: '' } } } }),
    ).toEqual(idOf(url))
  })

  it('differs where something else is replicated', () => {
    const bodies = [
      {},
      { source: 'c' },
      { target: 'c' },
      { doc_ids: ['x'] },
      { selector: { a: 1 } },
      { winning_revs_only: true },
      { source: 'http://example.com/a' },
      { source: { url: 'http://example.com/a', headers: { 'X-Tenant': '1' } } },
    ]
    const bases = bodies.map((body) => idOf(body).base)
    expect(new Set(bases).size).toBe(bodies.length)
    for (const base of bases) expect(base).toMatch(/^[0-9a-f]{32}$/)
  })

  it('says in its extension how it runs', () => {
    expect(idOf({ continuous: true, create_target: true }).extension).toBe('+continuous+create_target')
    expect(idOf({ continuous: true }).base).toBe(idOf({}).base)
  })
})

describe('a request', () => {
  it('hides passwords where addresses are shown', () => {
    const { source } = parse({ source: 'https://joe:s%40cret@example.com:6984/some%2Fdb', target: 'b' })
    expect(source).toMatchObject({
      kind: 'remote',
      url: 'https://example.com:6984/some%2Fdb/',
      shown: 'https://joe:*****@example.com:6984/some%2Fdb/',
      credentials: { name: 'joe', password: 's@cret' },
    })
  })

  it('is refused where a field is wrong', () => {
    const wrong: object[] = [
      { source: 'ftp://example.com/db', target: 'b' },
      { source: 'http://example.com/', target: 'b' },
      { source: { url: '' }, target: 'b' },
      { source: { url: 'http://x/db', headers: { 'a b': 'c' } }, target: 'b' },
      { source: { url: 'http://x/db', headers: { Host: 'c' } }, target: 'b' },
      { source: { url: 'http://x/db', headers: { a: 'b\r\nc: d' } }, target: 'b' },
      { source: { url: 'http://x/db', auth: { oauth: {} } }, target: 'b' },
      { source: 'a', target: 'b', continuous: 'yes' },
      { source: 'a', target: 'b', doc_ids: 'x' },
      { source: 'a', target: 'b', doc_ids: ['x'], selector: {} },
      { source: 'a', target: 'b', selector: [] },
      { source: 'a', target: 'b', selector: { $unknown: 1 } },
      { source: 'a', target: 'b', proxy: 'ftp://x' },
      { source: 'a', target: 'b', worker_processes: 0 },
      { source: 'a', target: 'b', use_checkpoints: 1 },
    ]
    for (const body of wrong) expect(() => parse(body), JSON.stringify(body)).toThrow()
  })
})

describe('lines of a feed', () => {
  it('are the same however the stream is cut', async () => {
    const values = [{ seq: 1, id: 'ü' }, { seq: [2, 'x'] }, { last_seq: 3 }]
    const bytes = Buffer.from(`\n${values.map((value) => JSON.stringify(value)).join('\r\n\n')}\n`)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length)), async (cuts) => {
        const ends = [...cuts.sort((a, b) => a - b), bytes.length]
        async function* pieces() {
          let start = 0
          for (const end of ends) {
            yield bytes.subarray(start, end)
            start = end
          }
        }
        expect((await Array.fromAsync(jsonLines(pieces()))).flat()).toEqual(values)
      }),
    )
  })
})

describe('an attempt', () => {
  it('is repeated while its failure may pass', async () => {
    let attempts = 0
    const result = await retried({ retries: 2 }, new AbortController().signal, async () => {
      if (++attempts < 2) throw new TransientError('x')
      return attempts
    })
    expect(result).toBe(2)
    await expect(
      retried({ retries: 2 }, new AbortController().signal, async () => {
        attempts++
        throw new Error('for good')
      }),
    ).rejects.toThrow('for good')
    expect(attempts).toBe(3)
  })

  it('ends with the signal', async () => {
    const ending = new AbortController()
    const failing = retried({ retries: 100 }, ending.signal, async () => {
      ending.abort(new Error('cancelled'))
      throw new TransientError('x')
    })
    await expect(failing).rejects.toThrow('cancelled')
  })
})
