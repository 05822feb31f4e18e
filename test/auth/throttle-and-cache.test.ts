import { describe, expect, it } from 'vitest'
import { AuthSettings } from '../../src/auth/auth-settings.ts'
import { delayOf, LoginThrottle } from '../../src/auth/passwords/login-throttle.ts'
import { LoginWork } from '../../src/auth/passwords/login-work.ts'
import { hashUserPassword, userPasswordHash } from '../../src/auth/passwords/passwords.ts'
import { Semaphore } from '../../src/auth/passwords/semaphore.ts'
import { VerifiedPasswords } from '../../src/auth/passwords/verified-passwords.ts'
import { RecentMap } from '../../src/auth/users/recent-map.ts'
import { processMs } from '../support/processor-time.ts'
import { TestClock, TestSettings } from './test-auth.ts'

describe('the delay of wrong passwords', () => {
  const settings = { freeTries: 3, delayMs: 100, longestMs: 1_000 }

  it('is none at first, then doubles up to the longest', () => {
    expect([1, 2, 3, 4, 5, 6, 7, 8, 9, 5_000].map((wrong) => delayOf(wrong, settings))).toEqual([
      0, 0, 0, 100, 200, 400, 800, 1_000, 1_000, 1_000,
    ])
  })

  it('counts each name separately, and starts over after a right password and after a while', async () => {
    const clock = new TestClock()
    const throttle = new LoginThrottle(() => ({ freeTries: 1, delayMs: 60_000, longestMs: 60_000 }), clock)
    await throttle.wrong('ann')
    throttle.right('ann')
    await throttle.wrong('ann')
    await throttle.wrong('bob')
    clock.seconds += 3_600
    await throttle.wrong('ann')
    const waiting = throttle.wrong('ann')
    // A server that closes lets everybody go: nobody waits a minute here.
    throttle.close()
    await waiting
  })
})

describe('verified passwords', () => {
  async function hashOf(password: string, iterations = 3) {
    return userPasswordHash(await hashUserPassword(password, { scheme: 'pbkdf2', iterations }))!
  }

  it('are right again without the slow hash, and others are not', async () => {
    const verified = new VerifiedPasswords(new LoginWork(new AuthSettings(new TestSettings())))
    const slow = await hashOf('right', 300_000)
    const isRight = async () => expect(await verified.verify('ann', 'right', slow)).toBe(true)
    const onceMs = await processMs(isRight)
    const againMs = await processMs(async () => {
      for (let i = 0; i < 20; i++) await isRight()
    })
    expect(againMs).toBeLessThan(onceMs)
    expect(await verified.verify('ann', 'wrong', slow)).toBe(false)
    expect(await verified.verify('bob', 'right', slow)).toBe(true)
  })

  it('say nothing about another hash', async () => {
    const verified = new VerifiedPasswords(new LoginWork(new AuthSettings(new TestSettings())))
    expect(await verified.verify('ann', 'right', await hashOf('right'))).toBe(true)
    expect(await verified.verify('ann', 'right', await hashOf('new'))).toBe(false)
  })

  it('are asked for once by many at a time', async () => {
    const verified = new VerifiedPasswords(new LoginWork(new AuthSettings(new TestSettings())))
    const hash = await hashOf('right', 100_000)
    const answers = await Promise.all(Array.from({ length: 50 }, () => verified.verify('ann', 'right', hash)))
    expect(answers.every(Boolean)).toBe(true)
    verified.clear()
    expect(await verified.verify('ann', 'right', hash)).toBe(true)
  })
})

describe('a map with limited room', () => {
  it('drops what was not used for the longest time', () => {
    const map = new RecentMap<number>()
    for (const key of ['a', 'b', 'c']) map.set(key, 1, 3)
    map.get('a')
    map.set('d', 1, 3)
    expect(['a', 'b', 'c', 'd'].map((key) => map.get(key) !== undefined)).toEqual([true, false, true, true])
    map.set('e', 1, 0)
    expect(map.size).toBe(0)
  })
})

describe('turns', () => {
  it('let so many work at a time, in order, whatever becomes of them', async () => {
    const turns = new Semaphore(2)
    const begun: number[] = []
    const finish: (() => void)[] = []
    const all = [0, 1, 2, 3].map((number) =>
      turns.run(
        () =>
          new Promise<void>((resolve, reject) => {
            begun.push(number)
            finish.push(number === 1 ? () => reject(new Error('no')) : resolve)
          }),
      ),
    )
    const settled = Promise.allSettled(all)
    await expect.poll(() => begun).toEqual([0, 1])
    finish[1]?.()
    await expect.poll(() => begun).toEqual([0, 1, 2])
    finish[0]?.()
    await expect.poll(() => begun).toEqual([0, 1, 2, 3])
    finish[2]?.()
    finish[3]?.()
    expect((await settled).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
  })
})
