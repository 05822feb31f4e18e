import { expect, it } from 'vitest'
import { type Sender, SlowSenders } from '../../src/runtime/slow-senders.ts'

interface TestLease {
  readonly name: string
  readonly bytes: number
  readonly sender: Sender & { receivedBytes: number }
}

function lease(name: string, bytes: number, { isAwaited = true } = {}): TestLease {
  return { name, bytes, sender: { receivedBytes: bytes, isAwaited, cutOff: () => {} } }
}

it('finds those who would take longest to send as much as they hold', () => {
  const slow = new SlowSenders<TestLease>()
  const quick = lease('quick', 1000)
  const trickling = lease('trickling', 1_000_000)
  const silent = lease('silent', 1000)
  const largeAndSilent = lease('large and silent', 2000)
  const busy = lease('busy', 1000, { isAwaited: false })
  slow.sample([quick, trickling, silent, largeAndSilent, busy], 5000)
  quick.sender.receivedBytes += 500
  trickling.sender.receivedBytes += 500
  expect(slow.slowerThan(10_000, 6000).map(({ name }) => name)).toEqual(['large and silent', 'silent', 'trickling'])
})

it('does not judge those who came later', () => {
  const slow = new SlowSenders<TestLease>()
  slow.sample([], 5000)
  expect(slow.slowerThan(10_000, 6000)).toEqual([])
})
