/** Edits as users and other servers make them: new documents, updates, conflicts, deletions, attachments of all kinds. */
import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import type { Random } from '../../crash/random.ts'

interface Row {
  readonly id: string
  readonly changes: readonly { readonly rev: string }[]
  readonly deleted?: boolean
}

/** Ids that a path must escape, and some that sort in odd places. */
const IDS = ['plain', 'a/b', 'ü–漢', 'q?x=1&y', 'c%2Fd', 'sp ace', '+plus', '"quoted"', '😀', '_design/d', 'k:v;w']

export interface EditOptions {
  readonly edits: number
  /** More make fewer conflicts. */
  readonly documents: number
  /** The largest attachment. */
  readonly largestBytes?: number
}

export class RandomEdits {
  readonly #random: Random
  readonly #options: EditOptions
  #made = 0

  constructor(random: Random, options: EditOptions) {
    this.#random = random
    this.#options = options
  }

  /** Makes edits in a database, one after the other. */
  async run(url: string, edits = this.#options.edits): Promise<void> {
    for (let i = 0; i < edits; i++) await this.#edit(url)
  }

  async #edit(url: string): Promise<void> {
    const random = this.#random
    const id = this.#id()
    const row = await this.#row(url, id)
    const kind = random.next()
    this.#made++
    if (!row || row.deleted || kind < 0.25) await this.#put(url, id, row)
    else if (kind < 0.4) await this.#branch(url, id, row)
    else if (kind < 0.55) await this.#delete(url, id, row)
    else if (kind < 0.8) await this.#attach(url, id, row)
    else await this.#put(url, id, row)
  }

  #id(): string {
    const number = this.#random.below(this.#options.documents)
    return IDS[number] ?? `document-${number}`
  }

  async #row(url: string, id: string): Promise<Row | undefined> {
    const query = `filter=_doc_ids&style=all_docs&doc_ids=${encodeURIComponent(JSON.stringify([id]))}`
    const { results } = (await send('GET', `${url}/_changes?${query}`)) as { results: Row[] }
    return results[0]
  }

  /** One of the leaves: not always the one that wins. */
  #leafOf({ changes }: Row): string {
    return changes[this.#random.below(changes.length)]?.rev ?? ''
  }

  #body(): object {
    const digits = this.#random.chance(0.1) ? { large: '12345678901234567890', small: 0.1 } : {}
    return { made: this.#made, text: 'x'.repeat(this.#random.below(400)), list: [1, [null, { ü: 'ß' }]], ...digits }
  }

  /** Kept attachments stay as stubs. */
  async #put(url: string, id: string, row: Row | undefined): Promise<void> {
    const isLive = row !== undefined && !row.deleted
    const rev = isLive ? row.changes[0]?.rev : undefined
    const { _attachments } = rev
      ? ((await send('GET', `${pathOf(url, id)}?rev=${rev}`)) as { _attachments?: object })
      : { _attachments: undefined }
    const document = { ...this.#body(), ...(rev && { _rev: rev }), ...(_attachments && { _attachments }) }
    await send('PUT', pathOf(url, id), JSON.stringify(document))
  }

  async #branch(url: string, id: string, { changes }: Row): Promise<void> {
    const [generation = '1', hash = ''] = (changes[0]?.rev ?? '').split('-')
    const start = Number(generation) + this.#random.below(2)
    const ids = [randomBytes(16).toString('hex'), ...(start > Number(generation) ? [hash] : [])]
    const deleted = this.#random.chance(0.2) ? { _deleted: true } : {}
    const docs = [{ _id: id, _rev: `${start}-${ids[0]}`, _revisions: { start, ids }, ...this.#body(), ...deleted }]
    await send('POST', `${url}/_bulk_docs`, JSON.stringify({ new_edits: false, docs }))
  }

  async #delete(url: string, id: string, row: Row): Promise<void> {
    await send('DELETE', `${pathOf(url, id)}?rev=${this.#leafOf(row)}`)
  }

  async #attach(url: string, id: string, { changes }: Row): Promise<void> {
    const random = this.#random
    const isText = random.chance(0.5)
    const bytes = random.below(random.chance(0.1) ? (this.#options.largestBytes ?? 200_000) : 2000)
    const content = isText ? Buffer.alloc(bytes, `some text of ${this.#made} `) : randomBytes(bytes)
    const name = ['a.txt', 'folder/b.bin', 'ü.json'][random.below(3)] ?? 'a'
    const type = isText ? 'text/plain' : 'application/octet-stream'
    const path = `${pathOf(url, id)}/${name.split('/').map(encodeURIComponent).join('/')}`
    await send('PUT', `${path}?rev=${changes[0]?.rev}`, content, type)
  }
}

function pathOf(url: string, id: string): string {
  return id.startsWith('_design/') ? `${url}/${id}` : `${url}/${encodeURIComponent(id)}`
}

async function send(method: string, url: string, body?: string | Buffer, type = 'application/json'): Promise<unknown> {
  const headers = body === undefined ? {} : { 'Content-Type': type }
  const reply = await fetch(url, {
    method,
    headers,
    ...(body !== undefined && { body: new Uint8Array(Buffer.from(body)) }),
  })
  const text = await reply.text()
  // Somebody else, such as a replication, may have been faster.
  if (reply.status !== 409 && reply.status !== 404) expect(reply.status, `${method} ${url} ${text}`).toBeLessThan(300)
  return JSON.parse(text)
}
