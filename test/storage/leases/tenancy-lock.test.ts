import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { awaitVacancy } from '../../../src/storage/leases/tenancy-lock.ts'
import { isRunning } from '../../support/settle-command.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'

async function stoppedTenant(): Promise<{ folder: string; pid: number; record: string }> {
  const folder = await temporaryFolder()
  const child = fork(join(import.meta.dirname, 'tenant.ts'), [folder], { execArgv: ['--no-warnings'] })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  await once(child, 'message')
  child.kill('SIGSTOP')
  const { pid = 0 } = child
  return { folder, pid, record: join(folder, '.tenants', String(pid)) }
}

describe('a process of an earlier server that does not end', () => {
  it('is killed by the next server, which forgets it', async () => {
    const { folder, pid, record } = await stoppedTenant()
    const killed: number[] = []
    await awaitVacancy(folder, (each) => killed.push(each))
    expect(killed).toEqual([pid])
    // Its lock is free as soon as its files are closed, which is before the system counts it as ended.
    await until(() => !isRunning(pid))
    await expect(readFile(record)).rejects.toThrow('ENOENT')
  })

  it('is waited for where the record is of another process with the same id', async () => {
    const { folder, pid, record } = await stoppedTenant()
    const text = await readFile(record, 'utf8')
    await writeFile(
      record,
      text.replace(/\d\n$/, (digit) => `${9 - Number(digit)}\n`),
    )
    const killed: number[] = []
    const vacancy = awaitVacancy(folder, (each) => killed.push(each)).then(() => 'vacant')
    expect(await Promise.race([vacancy, pause(2000, 'taken')])).toBe('taken')
    expect([isRunning(pid), killed]).toEqual([true, []])
    process.kill(pid, 'SIGKILL')
    expect(await vacancy).toBe('vacant')
    expect(await readdir(join(folder, '.tenants'))).toEqual([])
  })
})
