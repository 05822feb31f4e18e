import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Connection } from '../../../src/storage/postgres/connection.ts'
import { parseAddress } from '../../../src/storage/postgres/engine-address.ts'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { dialectOf, isRetryable, isUnavailable } from '../../../src/storage/postgres/sql-dialect.ts'
import { STATEMENTS, type Statement } from '../../../src/storage/postgres/statements.ts'
import { byteaArray, bytesOf, int8Array } from '../../../src/storage/postgres/wire-values.ts'
import { EngineUnavailableError } from '../../../src/storage/storage-error.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'

describeOnPostgres('the statements', () => {
  let connection: Connection
  beforeAll(async () => {
    const address = (await sharedPostgres()).address()
    await (await PostgresEngine.open({ address })).close()
    connection = await Connection.open(parseAddress(address))
  })
  afterAll(() => connection.end())

  async function planOf({ name, text }: Statement): Promise<string> {
    const parameters = Math.max(0, ...[...text.matchAll(/\$(\d+)/g)].map(([, number]) => Number(number)))
    await connection.script(`DEALLOCATE ALL; PREPARE plan_${name} AS ${text}`)
    const values = parameters > 0 ? `(${Array(parameters).fill('NULL').join(', ')})` : ''
    return (await connection.script(`EXPLAIN EXECUTE plan_${name}${values}`)).flat().join('\n')
  }

  // A session may plan a statement while the tables are empty, and keeps the plan.
  describe('find rows by their primary key, also when they are planned on empty tables', () => {
    const few = new Set(['find_garbage', 'seen', 'others', 'held_leases'])
    for (const statement of Object.values(STATEMENTS)) {
      it(statement.name, async () => {
        const plan = await planOf(statement)
        expect(plan).not.toMatch(/Seq Scan on (rows|stores)/)
        if (!few.has(statement.name)) expect(plan).not.toMatch(/Sort|Seq Scan/)
        for (const [, condition = ''] of plan.matchAll(/using rows_pkey[^\n]*\n\s*(Index Cond:[^\n]*)?/g)) {
          expect(condition).toMatch(/space = /)
        }
        if (statement.text.includes('key = ')) expect(plan).toMatch(/Index Cond: \(\(space = [^\n]*key = /)
      })
    }
  })

  it('take arrays in binary form', async () => {
    const echo: Statement = {
      name: 'echo',
      text: 'SELECT n, b FROM unnest($1::bigint[], $2::bytea[]) AS pair (n, b)',
    }
    const numbers = [0, -1, 2 ** 53 - 1]
    const bytes = [Buffer.alloc(0), Buffer.of(0, 255), Buffer.alloc(3000, 7)]
    const rows = await connection.run(echo, [int8Array(numbers), byteaArray(bytes)])
    expect(rows.map(([n]) => Number(n))).toEqual(numbers)
    expect(rows.map(([, b]) => bytesOf(b ?? '').equals(bytes[rows.findIndex((row) => row[1] === b)]!))).toEqual([
      true,
      true,
      true,
    ])
    expect(await connection.run(echo, [int8Array([]), byteaArray([])])).toEqual([])
  })

  it('are prepared once, and again when that failed', async () => {
    const refused: Statement = { name: 'refused', text: 'SELECT 1 / $1::bigint' }
    const sum: Statement = { name: 'sum', text: 'SELECT $1::bigint + $2::bigint, $3::text' }
    await connection.script('BEGIN')
    const sent = await Promise.allSettled([
      connection.run(refused, [0]),
      connection.run(sum, [1, 2, null]),
      connection.script('ROLLBACK'),
    ])
    expect(sent.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled'])
    const answers = await Promise.all([
      connection.run(sum, [1, 2, null]),
      connection.run(refused, [1]),
      connection.run(sum, [3, 4, 'text']),
    ])
    expect(answers).toEqual([[['3', null]], [['1']], [['7', 'text']]])
    const prepared = await connection.script("SELECT name FROM pg_prepared_statements WHERE name IN ('sum', 'refused')")
    expect(prepared).toHaveLength(2)
  })

  it('fail when their connection is lost', async () => {
    const lost = await Connection.open(parseAddress((await sharedPostgres()).address()))
    const waiting = lost.run({ name: 'wait', text: 'SELECT pg_sleep($1)' }, ['60'])
    lost.destroy()
    await expect(waiting).rejects.toThrow(EngineUnavailableError)
    await expect(lost.run(STATEMENTS.number, [])).rejects.toThrow(EngineUnavailableError)
  })
})

describe('dialects', () => {
  it('are chosen by the version of the server', () => {
    expect(dialectOf('PostgreSQL 15.8 (Debian) on x86_64').name).toBe('postgresql')
    expect(dialectOf('PostgreSQL 11.2-YB-2.20.0.0-b0 on x86_64').name).toBe('yugabytedb')
    expect(dialectOf('CockroachDB CCL v24.1.0 (x86_64)').name).toBe('cockroachdb')
  })

  it('distinguish errors that may be retried from unknown outcomes', () => {
    expect(isRetryable('40001')).toBe(true)
    expect(isRetryable('23505')).toBe(false)
    expect(isUnavailable('57P01')).toBe(true)
    expect(isUnavailable(undefined)).toBe(true)
    expect(isUnavailable('42601')).toBe(false)
  })
})

describe('an address', () => {
  it('is shown without its password', () => {
    const { shown, schema } = parseAddress('postgres://me:s3cret@db.example:5433/main?password=s3cret&schema=mine')
    expect(shown).not.toContain('s3cret')
    expect(shown).toContain('db.example:5433/main')
    expect(schema).toBe('mine')
  })

  it('is refused with an error that does not contain it', () => {
    for (const wrong of ['mysql://a:s3cret@b/c', 'postgres s3cret', 'postgres://a:s3cret@b/c?schema=Robert";--']) {
      expect(() => parseAddress(wrong)).toThrow(/address|schema/)
      expect(() => parseAddress(wrong)).not.toThrow('s3cret')
    }
  })
})
