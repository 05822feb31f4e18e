import { type ChildProcess, spawn } from 'node:child_process'
import { getPriority, setPriority } from 'node:os'
import { afterEach, describe, expect, it } from 'vitest'
import { lowerPriority } from '../../../src/runtime/processes/lower-priority.ts'

let child: ChildProcess | undefined
afterEach(() => child?.kill())

function startedPid(): number {
  child = spawn('sleep', ['60'], { stdio: 'ignore' })
  expect(child.pid).toBeDefined()
  return child.pid!
}

describe.skipIf(process.platform === 'win32')('the priority of a process', () => {
  it('is lowered', () => {
    const pid = startedPid()
    lowerPriority(pid, 19)
    expect(getPriority(pid)).toBe(19)
  })

  it('is never above that of the server, which may be nicer', () => {
    const pid = startedPid()
    setPriority(pid, 19)
    lowerPriority(pid, getPriority() - 1)
    expect(getPriority(pid)).toBeGreaterThanOrEqual(getPriority())
  })

  it('of a process that is gone is ignored', () => {
    expect(() => lowerPriority(2 ** 22 + 1, 5)).not.toThrow()
  })
})
