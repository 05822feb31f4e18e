import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { Feed, type FeedEvent } from '../../../src/http/changes/feed.ts'
import { Deadlines } from '../../../src/runtime/deadlines.ts'
import { Reply } from '../../../src/wire/reply.ts'

const HEARTBEAT = { afterMs: 5, sendsHeartbeat: true }

/** One without subscribers. */
function reply(): Reply {
  const sink = {
    isOpen: true,
    canKeepAlive: true,
    write: () => true,
    cork() {},
    uncork() {},
    drained: async () => {},
    done() {},
    destroy() {},
  }
  return new Reply(sink, { isHeadOnly: false, isHttp10: false, keepsAlive: true })
}

function newFeed(): Feed {
  const made = new Feed(reply(), new Deadlines(), HEARTBEAT)
  onTestFinished(() => made[Symbol.dispose]())
  return made
}

describe('a feed that waits', () => {
  it('is woken by an update, once for all since the last', async () => {
    const each = newFeed()
    each.notify()
    each.notify()
    expect(await each.wait()).toBe('update')
    each.restartIdleTime()
    expect(await each.wait()).toBe('idle')
  })

  it('is not woken by an update that is pushed to its client', async () => {
    const each = newFeed()
    const push = vi.fn(() => true)
    const waiting = each.wait(push)
    each.notify()
    each.notify()
    each.restartIdleTime()
    expect(await waiting).toBe('idle')
    expect(push).toHaveBeenCalledTimes(2)
  })

  it('has nothing pushed while it does not wait', async () => {
    const each = newFeed()
    const push = vi.fn(() => true)
    const waiting = each.wait(push)
    each.restartIdleTime()
    await waiting
    each.notify()
    expect(push).not.toHaveBeenCalled()
    expect(await each.wait(push)).toBe('update')
  })

  it('is not woken while its client drains, and is then notified of later updates', async () => {
    const each = newFeed()
    const { promise: taken, resolve: take } = Promise.withResolvers<void>()
    const push = vi.fn(() => taken)
    let awaited: FeedEvent | undefined
    const waiting = each.wait(push).then((what) => {
      awaited = what
    })
    each.notify()
    each.notify()
    each.restartIdleTime()
    // The time of another one, which began later, is over: so is that of this one.
    const other = newFeed()
    other.restartIdleTime()
    expect(await other.wait()).toBe('idle')
    expect([awaited, push.mock.calls.length]).toEqual([undefined, 1])
    take()
    await waiting
    expect(awaited).toBe('update')
  })

  it('ends even if its client does not read', async () => {
    const each = newFeed()
    const waiting = each.wait(() => new Promise<void>(() => {}))
    each.notify()
    each[Symbol.dispose]()
    expect(await waiting).toBe('end')
    expect(each.isOver).toBe(true)
  })
})
