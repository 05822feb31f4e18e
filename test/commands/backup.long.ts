import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { SettleCommand } from '../support/settle-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { contentsOf } from './compare-databases.ts'
import { startSettle } from './run-settle.ts'

const DOCUMENTS = 100_000
const KILLS = 20

/** A server in a process of its own, on a folder. */
async function server(): Promise<string> {
  const command = new SettleCommand(['--port', '0', '--dir', await temporaryFolder()])
  return command.url
}

async function post(url: string, path: string, body: unknown): Promise<void> {
  const headers = { 'Content-Type': 'application/json' }
  const reply = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`)
}

/** Writes until it is stopped: updates, conflicts, deletions, attachments, purges. */
class Load {
  #isStopped = false
  readonly #done: Promise<void>
  writes = 0

  constructor(url: string) {
    this.#done = this.#run(url)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#done
  }

  async #run(url: string): Promise<void> {
    for (let round = 1; !this.#isStopped; round++) {
      const docs = Array.from({ length: 50 }, () => {
        const id = Math.floor(Math.random() * DOCUMENTS * 1.1)
        const hash = `${round}x${Math.floor(Math.random() * 1e9)}`
        return {
          _id: `doc-${id}`,
          _rev: `2-${hash}`,
          _revisions: { start: 2, ids: [hash, 'first'] },
          round,
          ...(round % 5 === 0 && { _deleted: true }),
          ...(round % 7 === 0 && {
            _attachments: { file: { data: Buffer.alloc(3000, round).toString('base64'), revpos: 2 } },
          }),
        }
      })
      await post(url, 'a/_bulk_docs', { docs, new_edits: false })
      this.writes += docs.length
      if (round % 10 === 0) await post(url, 'a/_purge', { [docs[0]!._id]: [docs[0]!._rev] })
      await pause(20)
    }
  }
}

describe('backups of a server under load', () => {
  it(
    `of ${DOCUMENTS} documents, killed ${KILLS} times, restore to what the server has`,
    async () => {
      const source = await server()
      await fetch(`${source}a`, { method: 'PUT' })
      for (let first = 0; first < DOCUMENTS; first += 2000) {
        const docs = Array.from({ length: 2000 }, (_, i) => ({
          _id: `doc-${first + i}`,
          _rev: '1-first',
          text: 'x'.repeat(200 + ((first + i) % 400)),
          ...(i % 200 === 0 && {
            _attachments: {
              file: { content_type: 'text/plain', data: Buffer.alloc(50_000, 65).toString('base64'), revpos: 1 },
            },
          }),
        }))
        await post(source, 'a/_bulk_docs', { docs, new_edits: false })
      }
      const to = join(await temporaryFolder(), 'backups')
      const load = new Load(source)
      let killed = 0
      for (let attempt = 0; killed < KILLS && attempt < 10 * KILLS; attempt++) {
        const backup = startSettle(['backup', '--to', to, '--url', source, '--db', 'a'])
        const killing = pause(300 + Math.random() * 2500).then(() => backup.kill())
        const { code } = await backup.ended
        await killing
        if (code === null) killed++
        else expect(code).toBe(0)
      }
      expect(killed).toBe(KILLS)
      await load.stop()
      expect(load.writes).toBeGreaterThan(1000)
      expect(await startSettle(['backup', '--to', to, '--url', source, '--db', 'a', '--verify']).ended).toMatchObject({
        code: 0,
      })

      const target = await server()
      let code: number | null = null
      for (let attempt = 0; code !== 0; attempt++) {
        const restore = startSettle(['restore', '--from', to, '--url', target, '--db', 'a'])
        if (attempt < 8) void pause(500 + Math.random() * 3000).then(() => restore.kill())
        ;({ code } = await restore.ended)
      }
      expect(await differences(source, target)).toEqual([])
    },
    20 * 60_000,
  )
})

async function differences(source: string, target: string): Promise<string[]> {
  const [right, found] = [await contentsOf(source, 'a'), await contentsOf(target, 'a')]
  const ids = new Set([...right.keys(), ...found.keys()])
  return [...ids].filter((id) => right.get(id) !== found.get(id))
}
