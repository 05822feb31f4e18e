/** Asks for many databases in turn, of which few are kept open, and measures what memory the server has to itself. */
import { MeasuredServer } from '../support/measured-server.ts'

export interface ManyDatabases {
  readonly databases: number
  readonly openAtMost: number
  readonly requests: number
}

const REPORTS = 10
const AT_ONCE = 8

/** Megabytes after each tenth of the requests. */
export async function memoryOver({ databases, openAtMost, requests }: ManyDatabases): Promise<number[]> {
  const server = await MeasuredServer.start({ service: { max_dbs_open: String(openAtMost) } })
  const { client } = server
  const inTurn = async (count: number, ask: (i: number) => Promise<unknown>) => {
    let next = 0
    const lane = async () => {
      for (let i = next++; i < count; i = next++) await ask(i)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, lane))
  }
  await inTurn(databases, async (i) => {
    await client.request('PUT', `/db${i}`)
    await client.request('PUT', `/db${i}/doc`, { body: { i } })
  })
  const megabytes: number[] = []
  for (let report = 0; report < REPORTS; report++) {
    await inTurn(requests / REPORTS, async (i) => {
      const { status } = await client.request('GET', `/db${(report * 7 + i) % databases}/doc`)
      if (status !== 200) throw new Error(`The status is ${status}.`)
    })
    megabytes.push(await server.privateMegabytes())
  }
  return megabytes
}
