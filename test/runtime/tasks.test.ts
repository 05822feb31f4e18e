import { describe, expect, it } from 'vitest'
import { TaskRegistry } from '../../src/runtime/tasks.ts'

describe('the task registry', () => {
  it('lists a task from its start to its end, its fields in order', () => {
    let now = 1_700_000_000_500
    const tasks = new TaskRegistry({ nowMs: () => now, nowUs: () => now * 1000 })
    const task = tasks.start({
      type: 'database_compaction',
      database: 'a',
      changes_done: 0,
      total_changes: 10,
      progress: 0,
    })
    now += 2000
    task.update({ changes_done: 5, progress: 50 })
    const [listed] = tasks.list()
    expect(listed).toEqual({
      pid: expect.stringMatching(/^<0\.\d+\.0>$/),
      changes_done: 5,
      database: 'a',
      progress: 50,
      started_on: 1_700_000_000,
      status: 'Processed 5 of 10 changes (50%)',
      task: 'a',
      total_changes: 10,
      type: 'database_compaction',
      updated_on: 1_700_000_002,
    })
    const names = Object.keys(listed ?? {})
    expect(names).toEqual(['pid', ...names.slice(1).sort()])
    task.end()
    task.update({ progress: 100 })
    expect(tasks.list()).toEqual([])
  })
})
