/** A large folder is checked in bounded memory, and what is wrong with it is found. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { changeKey } from '../../src/database/layout/keys.ts'
import { createService } from '../../src/service.ts'
import { LmdbEngine } from '../../src/storage/lmdb/lmdb-engine.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startSettle } from './run-settle.ts'

const DOCUMENTS = 500_000
const BATCH = 5000
/** Of the process, without the files that it has mapped. */
const MOST_BYTES = 400_000_000

describe('settle check of a large folder', () => {
  it(
    `holds little of ${DOCUMENTS} documents in memory`,
    async () => {
      const dir = await temporaryFolder()
      const service = await createService({ dir, port: 0 })
      const url = await service.listen()
      await fetch(`${url}large`, { method: 'PUT' })
      for (let first = 0; first < DOCUMENTS; first += BATCH) {
        const docs = Array.from({ length: BATCH }, (_, i) => ({
          _id: `doc-${first + i}`,
          n: i,
          ...(i % 10 === 0 && { _attachments: { a: { data: 'AAAA', content_type: 'image/png' } } }),
        }))
        const headers = { 'Content-Type': 'application/json' }
        const reply = await fetch(`${url}large/_bulk_docs`, { method: 'POST', headers, body: JSON.stringify({ docs }) })
        expect(reply.status).toBe(201)
      }
      await service.close()
      const engine = await LmdbEngine.open({ folder: dir })
      await (await engine.open('large')).commit({ deletes: [changeKey(DOCUMENTS - 7)] })
      await engine.close()

      const checking = startSettle(['check', '--dir', dir])
      let peakBytes = 0
      const watch = setInterval(() => {
        peakBytes = Math.max(peakBytes, privateBytes(checking.pid))
      }, 200)
      const { code, out } = await checking.ended
      clearInterval(watch)
      expect([code, out.toString()]).toEqual([
        3,
        expect.stringMatching(/document 'doc-\d+': Its change \d+ is missing/),
      ])
      expect(peakBytes).toBeGreaterThan(0)
      expect(peakBytes).toBeLessThan(MOST_BYTES)
    },
    20 * 60_000,
  )
})

function privateBytes(pid: number): number {
  try {
    const [, kilobytes] = /^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(kilobytes ?? 0) * 1024
  } catch {
    return 0
  }
}
