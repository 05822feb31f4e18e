import { expect, it, onTestFinished } from 'vitest'
import { PostgresOtherServers } from '../../../src/storage/postgres/other-servers.ts'
import { PostgresServer } from '../../../src/storage/postgres/postgres-server.ts'
import { EngineUnavailableError } from '../../../src/storage/storage-error.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'
import { PostgresProxy } from '../../support/postgres-proxy.ts'

it('a server that many ask at the same time writes one report after the other, and few of them', async () => {
  const written: unknown[] = []
  const writing: (() => void)[] = []
  const others = new PostgresOtherServers({
    id: Buffer.from('id'),
    run: async (_statement, [, report]) => {
      await new Promise<void>((resolve) => writing.push(resolve))
      written.push(report)
      return []
    },
    request: async () => true,
  })
  let made = 0
  others.reportWith(() => `report ${++made}`)
  const first = others.handle('report')
  await new Promise(setImmediate)
  const later = Array.from({ length: 10 }, () => others.handle('report'))
  await new Promise(setImmediate)
  expect(writing).toHaveLength(1)
  writing[0]?.()
  await first
  await new Promise(setImmediate)
  expect(writing).toHaveLength(2)
  writing[1]?.()
  await Promise.all(later)
  expect(written).toEqual(['report 1', 'report 2'])
})

describeOnPostgres('the reports of other servers', () => {
  it('are not waited for while PostgreSQL does not answer', async () => {
    const postgres = await sharedPostgres()
    const proxy = await PostgresProxy.open(postgres.socket)
    onTestFinished(() => proxy.close())
    const server = await PostgresServer.open({ address: postgres.address(undefined, proxy.folder), leaseMs: 600_000 })
    onTestFinished(() => server.close())
    expect(await server.others.reports()).toEqual({ texts: [], areAll: true })
    proxy.freeze()
    onTestFinished(() => proxy.thaw())
    await expect(server.others.reports()).rejects.toThrow(EngineUnavailableError)
  })
})
