import { expect, it, onTestFinished } from 'vitest'
import { LatePostgres } from '../../../src/storage/postgres/late-postgres.ts'
import { EngineUnavailableError } from '../../../src/storage/storage-error.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'
import { PostgresProxy } from '../../support/postgres-proxy.ts'
import { until } from '../../support/until.ts'

async function behindProxy(): Promise<{ proxy: PostgresProxy; late: LatePostgres; reports: string[] }> {
  const postgres = await sharedPostgres()
  const proxy = await PostgresProxy.open(postgres.socket)
  onTestFinished(() => proxy.close())
  const reports: string[] = []
  const late = new LatePostgres({ address: postgres.address(undefined, proxy.folder) }, () => {}, {
    away: (error) => reports.push(`away: ${error}`),
    there: () => reports.push('there'),
    refused: (error) => reports.push(`refused: ${error}`),
  })
  return { proxy, late, reports }
}

describeOnPostgres('a PostgreSQL server that may be away', () => {
  it('is used as soon as it answers', async () => {
    const { proxy, late, reports } = await behindProxy()
    proxy.stall(true)
    const opening = late.open()
    await expect(late.databases.list()).rejects.toThrow(EngineUnavailableError)
    expect(late.databases.isListed).toBe(false)
    proxy.stall(false)
    await opening
    await until(() => late.databases.isListed)
    await late.databases.create('a')
    expect(await late.databases.list()).toEqual(['a'])
    await late.close()
    expect(reports.filter((report) => report.startsWith('refused'))).toEqual([])
  })

  it('does not delay the end of the server while it does not answer', async () => {
    const { proxy, late, reports } = await behindProxy()
    proxy.freeze()
    let isOpened = false
    const opening = late.open().then(() => {
      isOpened = true
    })
    await late.close()
    expect(isOpened).toBe(false)
    proxy.thaw()
    await opening
    // What was reached after the end is not used.
    expect(late.databases.isListed).toBe(false)
    expect(reports).toEqual([])
  })

  it('is refused at the start where its tables are in use by another name', async () => {
    const postgres = await sharedPostgres()
    const claim = () => {
      throw new Error('They are in use.')
    }
    const nothing = () => {}
    const late = new LatePostgres({ address: postgres.address() }, claim, {
      away: nothing,
      there: nothing,
      refused: nothing,
    })
    await expect(late.open()).rejects.toThrow('They are in use.')
    await late.close()
  })
})
