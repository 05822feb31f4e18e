import { expect, it, onTestFinished } from 'vitest'
import { ConnectionPool } from '../../../src/storage/postgres/connection-pool.ts'
import { parseAddress } from '../../../src/storage/postgres/engine-address.ts'
import { TooManyReadersError } from '../../../src/storage/storage-error.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'

describeOnPostgres('a pool of connections', () => {
  async function poolOf(connections: number): Promise<ConnectionPool> {
    const address = parseAddress((await sharedPostgres()).address())
    const limits = { connections, waitMs: 1000, statementMs: 30_000, idleMs: 30_000 }
    const pool = new ConnectionPool(address, limits)
    onTestFinished(() => pool.close())
    return pool
  }

  it('refuses who waits too long', async () => {
    const pool = await poolOf(1)
    const held = await pool.acquire()
    await expect(pool.acquire()).rejects.toBeInstanceOf(TooManyReadersError)
    pool.release(held)
    pool.release(await pool.acquire())
    expect(pool.used).toBe(0)
  })

  it('gives no more than its size where connections come back', async () => {
    const pool = await poolOf(2)
    let most = 0
    const work = async () => {
      for (let i = 0; i < 40; i++) {
        const connection = await pool.acquire()
        most = Math.max(most, pool.used)
        await connection.script('SELECT 1')
        pool.release(connection)
      }
    }
    await Promise.all(Array.from({ length: 8 }, work))
    expect(most).toBe(2)
  })
})
