import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { type Awaited, FeedWaiter } from '../../../src/http/changes/feed-waiter.ts'
import { Deadlines } from '../../../src/runtime/deadlines.ts'
import { Reply } from '../../../src/wire/reply.ts'

const HEARTBEAT = { afterMs: 5, isFilled: true }

/** One that nobody hears. */
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

function waiter(): FeedWaiter {
  const made = new FeedWaiter(reply(), new Deadlines(), HEARTBEAT)
  onTestFinished(() => made[Symbol.dispose]())
  return made
}

describe('a feed that waits', () => {
  it('is woken by news, once for all that came since', async () => {
    const each = waiter()
    each.news()
    each.news()
    expect(await each.wait()).toBe('news')
    each.restart()
    expect(await each.wait()).toBe('silence')
  })

  it('is not woken by news that are brought to its client', async () => {
    const each = waiter()
    const bring = vi.fn(() => true)
    const waiting = each.wait(bring)
    each.news()
    each.news()
    each.restart()
    expect(await waiting).toBe('silence')
    expect(bring).toHaveBeenCalledTimes(2)
  })

  it('has nothing brought while it does not wait', async () => {
    const each = waiter()
    const bring = vi.fn(() => true)
    const waiting = each.wait(bring)
    each.restart()
    await waiting
    each.news()
    expect(bring).not.toHaveBeenCalled()
    expect(await each.wait(bring)).toBe('news')
  })

  it('is left alone while its client takes what was brought, and hears then of what came meanwhile', async () => {
    const each = waiter()
    const { promise: taken, resolve: take } = Promise.withResolvers<void>()
    const bring = vi.fn(() => taken)
    let awaited: Awaited | undefined
    const waiting = each.wait(bring).then((what) => {
      awaited = what
    })
    each.news()
    each.news()
    each.restart()
    // The time of another one, which began later, is over: so is that of this one.
    const other = waiter()
    other.restart()
    expect(await other.wait()).toBe('silence')
    expect([awaited, bring.mock.calls.length]).toEqual([undefined, 1])
    take()
    await waiting
    expect(awaited).toBe('news')
  })

  it('ends though its client takes nothing', async () => {
    const each = waiter()
    const waiting = each.wait(() => new Promise<void>(() => {}))
    each.news()
    each[Symbol.dispose]()
    expect(await waiting).toBe('end')
    expect(each.isOver).toBe(true)
  })
})
