/**
 * `npm run bench:authenticated`: what it costs to say who asks. The same GET of a document in open mode, with a name and
 * password in every request, and with the cookie of a session, in alternating rounds; rates as shares of open mode.
 */
import { BenchDatabase } from './bench-database.ts'
import { median } from './comparison.ts'
import { drive, type Load } from './load.ts'
import { count, percent, printTable } from './report.ts'
import { startSettle } from './servers.ts'
import { getDocuments } from './workloads.ts'

const ROUNDS = 9
const ROUND_MS = 1500
const DOCUMENTS = 1000
const AIM = 0.85
const NAME = 'bench'
const PASSWORD = 'secret'

async function fetched(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, init)
  if (!response.ok) throw new Error(`${init.method} ${url} gave ${response.status}: ${await response.text()}`)
  return response
}

const open = await startSettle()
const closed = await startSettle()
try {
  await fetched(`${closed.url}_config/admins/${NAME}`, { method: 'PUT', body: JSON.stringify(PASSWORD) })
  const credentials = JSON.stringify({ name: NAME, password: PASSWORD })
  const headers = { 'Content-Type': 'application/json' }
  const session = await fetched(`${closed.url}_session`, { method: 'POST', headers, body: credentials })
  const [cookie = ''] = (session.headers.get('set-cookie') ?? '').split(';')
  const named = new BenchDatabase(closed.url.replace('://', `://${NAME}:${PASSWORD}@`), 'documents')
  const anonymous = new BenchDatabase(open.url, 'documents')
  for (const database of [anonymous, named]) {
    await database.create()
    await database.fill(DOCUMENTS, 1024)
  }
  const cases: readonly { name: string; database: BenchDatabase; load: Load }[] = [
    { name: 'open mode', database: anonymous, load: await documents(anonymous) },
    { name: 'Basic', database: named, load: await documents(named) },
    { name: 'cookie', database: named, load: withCookie(await documents(named), cookie) },
  ]
  const rates = cases.map((): number[] => [])
  for (let round = -1; round < ROUNDS; round++) {
    for (const [i, { database, load }] of cases.entries()) {
      const { unitsPerSecond } = await drive(database.server, load, ROUND_MS)
      if (round >= 0) rates[i]?.push(unitsPerSecond)
    }
  }
  const shares = rates.map((each) => median(each.map((rate, round) => rate / (rates[0]?.[round] ?? rate))))
  printTable(
    ['GET a document of 1 KB, 32 connections', 'of open mode', 'aim', 'requests/s'],
    cases.map(({ name }, i) => {
      const aim = i === 0 ? '' : (shares[i] ?? 0) >= AIM ? 'reached' : 'missed'
      return [name, percent(shares[i] ?? 0), aim, count(median(rates[i] ?? []))]
    }),
  )
} finally {
  await open.process.stop()
  await closed.process.stop()
}

function documents(database: BenchDatabase): Promise<Load> {
  return getDocuments(database, { connections: 32, documents: DOCUMENTS })
}

/** The same requests, known by the session instead of the password. */
function withCookie(load: Load, cookie: string): Load {
  return {
    ...load,
    next: () => {
      const exchange = load.next()
      return { ...exchange, request: exchange.request.replace(/Authorization: .*\r\n/, `Cookie: ${cookie}\r\n`) }
    },
  }
}
