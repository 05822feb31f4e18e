/** Asks for many databases in turn, of which few are kept open, and measures the memory of the server. */
import { MeasuredServer } from '../../support/measured-server.ts'

export interface ManyDatabases {
  readonly databases: number
  readonly openAtMost: number
  readonly requests: number
}

/** After each tenth of the requests. */
export interface MemoryOver {
  /** By JavaScript: objects, and what they hold outside of their heap. */
  readonly heldMegabytes: readonly number[]
  /** By the whole process. */
  readonly privateMegabytes: readonly number[]
}

const REPORTS = 10
const AT_ONCE = 8

export async function memoryOver({ databases, openAtMost, requests }: ManyDatabases): Promise<MemoryOver> {
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
  const heldMegabytes: number[] = []
  const privateMegabytes: number[] = []
  for (let report = 0; report < REPORTS; report++) {
    await inTurn(requests / REPORTS, async (i) => {
      const { status } = await client.request('GET', `/db${(report * 7 + i) % databases}/doc`)
      if (status !== 200) throw new Error(`The status is ${status}.`)
    })
    const measured = await server.measure()
    heldMegabytes.push(measured.heldBytes / 2 ** 20)
    privateMegabytes.push(measured.privateMegabytes)
  }
  return { heldMegabytes, privateMegabytes }
}
