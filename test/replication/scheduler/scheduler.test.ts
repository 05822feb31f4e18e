/** Which replications run when: slots, turns, back-off. The attempts are the test's own, and so is the time. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ReplicationProgress, ReplicationResult } from '../../../src/replication/replication.ts'
import { type Attempt, Job, type JobSubject } from '../../../src/replication/scheduler/job.ts'
import { Scheduler } from '../../../src/replication/scheduler/scheduler.ts'
import { backOffMs, type SchedulerSettings } from '../../../src/replication/scheduler/scheduler-settings.ts'
import { silentLog } from '../../../src/runtime/log/log.ts'
import { TaskRegistry } from '../../../src/runtime/tasks.ts'
import { NO_PROGRESS, SCHEDULER_SETTINGS } from './scheduler-values.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] })
})
afterEach(() => {
  vi.useRealTimers()
})

const clock = { nowMs: () => Date.now(), nowUs: () => Date.now() * 1000 }

function schedulerWith(changes: Partial<SchedulerSettings> = {}) {
  let settings = { ...SCHEDULER_SETTINGS, ...changes }
  const tasks = new TaskRegistry(clock)
  const scheduler = new Scheduler({
    settings: () => settings,
    tasks,
    clock,
    log: silentLog,
    random: () => 0,
    reasonOf: (error) => (error instanceof Error ? error.message : String(error)),
  })
  const use = (more: Partial<SchedulerSettings>) => {
    settings = { ...settings, ...more }
    scheduler.settingsChanged()
  }
  return { scheduler, tasks, use }
}

/** A replication that does what the test says. */
class TestAttempt implements Attempt {
  readonly #ending = Promise.withResolvers<ReplicationResult>()
  onProgress: (() => void) | undefined
  onStarted: (() => void) | undefined
  reached: Partial<ReplicationProgress> = {}

  run(signal: AbortSignal): Promise<ReplicationResult> {
    signal.addEventListener('abort', () => this.#ending.reject(signal.reason))
    return this.#ending.promise
  }

  progress(): ReplicationProgress {
    return { ...NO_PROGRESS, ...this.reached }
  }

  complete(): void {
    this.#ending.resolve({ reply: {}, progress: this.progress() })
  }

  fail(reason: string): void {
    this.#ending.reject(new Error(reason))
  }
}

class TestJob {
  readonly attempts: TestAttempt[] = []
  readonly told: string[] = []
  readonly job: Job

  constructor(id: string, subject: Partial<JobSubject> = {}, { isRetried = true } = {}) {
    this.job = new Job({
      subject: {
        id,
        source: 'a',
        target: 'b',
        isContinuous: true,
        checkpointIntervalMs: 5000,
        user: null,
        document: undefined,
        ...subject,
      },
      attempt: () => {
        const attempt = new TestAttempt()
        this.attempts.push(attempt)
        return attempt
      },
      isRetried,
      historyLimit: () => 5,
      listener: {
        started: () => this.told.push('started'),
        crashed: (error) => this.told.push(`crashed: ${error}`),
        completed: () => this.told.push('completed'),
        failed: (error) => this.told.push(`failed: ${error}`),
        removed: () => this.told.push('removed'),
      },
    })
  }

  get current(): TestAttempt {
    const last = this.attempts.at(-1)
    if (!last) throw new Error('It did not run yet.')
    return last
  }

  get state(): string {
    return this.job.state
  }

  get events(): string[] {
    return this.job.history.events.map(({ type }) => type)
  }
}

/** Lets promises settle that wait for nothing else. */
const settled = () => vi.advanceTimersByTimeAsync(0)

describe('the scheduler', () => {
  it('runs as many jobs as there are slots, and the next when one ends', async () => {
    const { scheduler } = schedulerWith()
    const jobs = ['1', '2', '3'].map((id) => new TestJob(id, { isContinuous: false }))
    for (const { job } of jobs) scheduler.add(job)
    expect(jobs.map(({ state }) => state)).toEqual(['running', 'running', 'pending'])
    jobs[0]?.current.complete()
    await settled()
    expect(jobs[0]?.told).toEqual(['completed'])
    expect(scheduler.jobs.map(({ subject }) => subject.id)).toEqual(['2', '3'])
    expect(jobs[2]?.state).toBe('running')
    await scheduler.close()
  })

  it('gives continuous jobs turns, longest running first, a few at a time', async () => {
    const { scheduler } = schedulerWith()
    const jobs = ['1', '2', '3', '4'].map((id) => new TestJob(id))
    for (const { job } of jobs) scheduler.add(job)
    const running = () => jobs.flatMap(({ state }, i) => (state === 'running' ? [i + 1] : []))
    const seen: number[][] = []
    for (let turn = 0; turn < 6; turn++) {
      seen.push(running())
      await vi.advanceTimersByTimeAsync(1000)
    }
    expect(seen).toEqual([
      [1, 2],
      [2, 3],
      [3, 4],
      [1, 4],
      [1, 2],
      [2, 3],
    ])
    expect(jobs[0]?.events.toReversed().slice(0, 4)).toEqual(['added', 'started', 'stopped', 'started'])
    await scheduler.close()
  })

  it('gives turns while the clock of the system is set back', async () => {
    const { scheduler } = schedulerWith({ maxJobs: 1 })
    const [first, second] = [new TestJob('1'), new TestJob('2')]
    scheduler.add(first.job)
    scheduler.add(second.job)
    vi.setSystemTime(Date.now() - 3_600_000)
    await vi.advanceTimersByTimeAsync(1000)
    expect([first.state, second.state]).toEqual(['pending', 'running'])
    await scheduler.close()
  })

  it('lets one-shot jobs keep their slot to their end', async () => {
    const { scheduler } = schedulerWith({ maxJobs: 1 })
    const [first, second] = [new TestJob('1', { isContinuous: false }), new TestJob('2')]
    scheduler.add(first.job)
    scheduler.add(second.job)
    await vi.advanceTimersByTimeAsync(10_000)
    expect([first.state, second.state]).toEqual(['running', 'pending'])
    await scheduler.close()
  })

  it('serves users in turn: a user with many jobs does not delay one with a single job', async () => {
    const { scheduler } = schedulerWith({ maxJobs: 1 })
    const many = Array.from({ length: 5 }, (_, i) => new TestJob(`many-${i}`, { isContinuous: false, user: 'mia' }))
    const one = new TestJob('one', { isContinuous: false, user: 'ann' })
    for (const { job } of [...many, one]) scheduler.add(job)
    many[0]?.current.complete()
    await settled()
    many[1]?.current.complete()
    await settled()
    expect(one.state).toBe('running')
    await scheduler.close()
  })

  it('has no timer while there is a slot for every job', async () => {
    const { scheduler } = schedulerWith({ maxJobs: 500 })
    for (let i = 0; i < 500; i++) scheduler.add(new TestJob(String(i)).job)
    expect(vi.getTimerCount()).toBe(0)
    await scheduler.close()
  })

  it('tries a failed job again, after twice as long each time, and in the end no more', async () => {
    const { scheduler } = schedulerWith()
    const test = new TestJob('1')
    scheduler.add(test.job)
    for (const [delayMs, runs] of [
      [100, 1],
      [200, 2],
      [400, 3],
    ] as const) {
      test.current.fail('no route')
      await settled()
      expect([test.state, test.attempts.length]).toEqual(['crashing', runs])
      await vi.advanceTimersByTimeAsync(delayMs - 1)
      expect(test.state).toBe('crashing')
      await vi.advanceTimersByTimeAsync(1)
      expect(test.state).toBe('running')
    }
    test.current.fail('no route')
    await settled()
    expect(test.told).toEqual([
      'crashed: Error: no route',
      'crashed: Error: no route',
      'crashed: Error: no route',
      'failed: Error: no route',
    ])
    expect(scheduler.jobs).toEqual([])
    expect(test.job.history.events).toHaveLength(5)
  })

  it('forgets failures after a run that went well for a while', async () => {
    const { scheduler } = schedulerWith({ healthThresholdMs: 500 })
    const test = new TestJob('1')
    scheduler.add(test.job)
    for (let i = 0; i < 5; i++) {
      test.current.fail('no route')
      await vi.advanceTimersByTimeAsync(100 + 500)
      expect(test.job.errorCount).toBe(1)
    }
    await scheduler.close()
  })

  it('does not try again what a client asked for once', async () => {
    const { scheduler } = schedulerWith()
    const test = new TestJob('1', {}, { isRetried: false })
    scheduler.add(test.job)
    test.current.fail('no route')
    await settled()
    expect(test.told).toEqual(['failed: Error: no route'])
    expect(scheduler.job('1')).toBeUndefined()
  })

  it('reports each run when it has started', async () => {
    const { scheduler } = schedulerWith()
    const test = new TestJob('1')
    scheduler.add(test.job)
    expect(test.told).toEqual([])
    test.current.onStarted?.()
    expect(test.told).toEqual(['started'])
    await scheduler.close()
  })

  it('keeps the id of a removed job until nothing of it runs', async () => {
    const { scheduler } = schedulerWith()
    const removed: string[] = []
    scheduler.onRemoved((id) => removed.push(id))
    const test = new TestJob('1')
    scheduler.add(test.job)
    const removing = scheduler.remove(test.job)
    expect(scheduler.job('1')).toBe(test.job)
    await removing
    expect(scheduler.job('1')).toBeUndefined()
    expect(removed).toEqual(['1'])
    expect(test.told).toEqual(['removed'])
  })

  it('stops excess jobs when the limit is lowered, and continues them when it is raised', async () => {
    const { scheduler, use } = schedulerWith({ maxJobs: 3 })
    const jobs = ['1', '2', '3'].map((id) => new TestJob(id))
    for (const { job } of jobs) scheduler.add(job)
    use({ maxJobs: 1 })
    await settled()
    expect(jobs.map(({ state }) => state)).toEqual(['pending', 'pending', 'running'])
    use({ maxJobs: 3 })
    expect(jobs.map(({ state }) => state)).toEqual(['running', 'running', 'running'])
    await scheduler.close()
  })

  it('lists what runs among the tasks, and moves it once a second', async () => {
    const { scheduler, tasks } = schedulerWith()
    const test = new TestJob('1+continuous', { document: { database: '_replicator', id: 'doc' } })
    scheduler.add(test.job)
    test.current.reached = { source_seq: 10, progress: 50, docs_written: 5 }
    test.current.onProgress?.()
    expect(tasks.list()).toMatchObject([
      { type: 'replication', replication_id: '1+continuous', doc_id: 'doc', progress: 50, docs_written: 5 },
    ])
    test.current.reached = { source_seq: '10-abc', progress: null, docs_written: 9 }
    test.current.onProgress?.()
    expect(tasks.list()).toMatchObject([{ docs_written: 5 }])
    await vi.advanceTimersByTimeAsync(1000)
    expect(tasks.list()).toMatchObject([{ docs_written: 9, progress: null, source_seq: '10-abc' }])
    await scheduler.close()
    expect(tasks.list()).toEqual([])
  })
})

describe('back-off', () => {
  it('doubles up to a limit, with a random part on top', () => {
    const backOff = { delayMs: 5000, limitMs: 600_000 }
    expect([1, 2, 3, 8, 100].map((failures) => backOffMs(backOff, failures, () => 0))).toEqual([
      5000, 10_000, 20_000, 600_000, 600_000,
    ])
    expect(backOffMs(backOff, 1, () => 0.5)).toBe(5625)
  })
})
