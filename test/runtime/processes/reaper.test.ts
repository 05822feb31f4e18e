import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { descendantsCalled } from '../../support/descendants.ts'
import { isRunning } from '../../support/settle-command.ts'

interface Started {
  readonly endless: number
  readonly leader: number
  readonly member: number
}

describe.runIf(process.platform === 'linux')('the processes of a process that is killed', () => {
  it.each([[], ['--ahead']])('are ended: endless ones, stopped ones and those in their groups %s', async (...flags) => {
    const parent = fork(join(import.meta.dirname, 'reaper-parent.ts'), flags)
    const [{ endless, leader, member }] = (await once(parent, 'message')) as [Started]
    expect([endless, leader, member].filter(isRunning)).toHaveLength(3)
    await expect.poll(() => descendantsCalled(parent.pid ?? 0, 'sh').length).toBeGreaterThan(0)
    parent.kill('SIGKILL')
    await expect.poll(() => [endless, leader, member].filter(isRunning)).toEqual([])
  })
})
