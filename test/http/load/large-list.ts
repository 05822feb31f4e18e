/** Reads lists of any number of rows from a server of its own, and reports the memory that it took. */
import { expect } from 'vitest'
import { ServerProcess } from '../../crash/server-process.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

export interface LargeList {
  readonly replyBytes: number
  /** How much more memory than before it took at most: the server, and the process that runs the function. */
  readonly serverGrowthBytes: number
  readonly functionGrowthBytes: number
  readonly seconds: number
}

const DOCUMENTS_A_REQUEST = 10_000

function design(rowBytes: number) {
  return {
    views: { all: { map: 'function (doc) { emit(doc.n, null) }' } },
    lists: {
      rows: `function () {
        var row, padding = new Array(${rowBytes - 9}).join('x');
        while (row = getRow()) send(row.key + ' ' + padding + '\\n');
        return 'end';
      }`,
    },
  }
}

/** Of a view, and of all documents; each row becomes about so many bytes. */
export async function readLargeLists(rows: number, rowBytes: number): Promise<Map<string, LargeList>> {
  const server = new ServerProcess(await temporaryFolder())
  try {
    const database = `${await server.url()}large`
    await stored('PUT', database)
    await stored('PUT', `${database}/_design/app`, design(rowBytes))
    for (let first = 0; first < rows; first += DOCUMENTS_A_REQUEST) {
      const length = Math.min(DOCUMENTS_A_REQUEST, rows - first)
      const docs = Array.from({ length }, (_, i) => ({ _id: String(first + i).padStart(9, '0'), n: first + i }))
      await stored('POST', `${database}/_bulk_docs`, { docs })
    }
    // The index is built, and a function is at hand, before anything is measured.
    await stored('GET', `${database}/_design/app/_list/rows/all?limit=1000`)
    const lists = new Map<string, LargeList>()
    for (const view of ['all', '_all_docs']) {
      lists.set(view, await readList(server, `${database}/_design/app/_list/rows/${view}`, rows))
    }
    return lists
  } finally {
    await server.stop()
  }
}

async function readList(server: ServerProcess, url: string, rows: number): Promise<LargeList> {
  const begun = performance.now()
  const before = { server: server.residentBytes, children: server.childrenBytes }
  const highest = { ...before }
  const reply = await fetch(url)
  expect(reply.status).toBe(200)
  let replyBytes = 0
  let lines = 0
  let end = ''
  for await (const piece of reply.body ?? []) {
    replyBytes += piece.length
    for (const byte of piece) if (byte === NEWLINE) lines++
    end = Buffer.from(piece).toString('latin1').slice(-3)
    highest.server = Math.max(highest.server, server.residentBytes)
    highest.children = Math.max(highest.children, server.childrenBytes)
  }
  // A design document is among all documents.
  expect([lines >= rows && lines <= rows + 1, end]).toEqual([true, 'end'])
  return {
    replyBytes,
    serverGrowthBytes: highest.server - before.server,
    functionGrowthBytes: highest.children - before.children,
    seconds: (performance.now() - begun) / 1000,
  }
}

const NEWLINE = 0x0a

async function stored(method: string, url: string, body?: object): Promise<void> {
  const headers = { 'Content-Type': 'application/json' }
  const reply = await fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  const text = await reply.text()
  expect(reply.status, text.slice(0, 1000)).toBeLessThan(300)
}
