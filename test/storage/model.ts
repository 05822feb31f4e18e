/** A store as one would explain it: a sorted array of rows. Engines must agree with it. */
import { storedKey } from '../../src/storage/rows/stored-key.ts'
import type { Changes, KeyRange, Page, Snapshot } from '../../src/storage/store.ts'

export interface ModelRow {
  readonly key: Buffer
  readonly value: Buffer
}

export class Model {
  rows: readonly ModelRow[] = []
  version = 0

  get(key: Uint8Array): Buffer | undefined {
    return this.rows.find((row) => row.key.equals(key))?.value
  }

  /** The bounds are exact; the order is that of the keys as they are stored. */
  range({ from, to, reverse = false }: KeyRange): ModelRow[] {
    const rows = this.rows.filter(({ key }) => isIn(key, from, to))
    return reverse ? rows.reverse() : rows
  }

  commit({ clears = [], deletes = [], puts = [] }: Changes): void {
    const rows = new Map(this.rows.map((row) => [row.key.toString('hex'), row]))
    for (const { from, to } of clears) {
      for (const { key } of this.rows) if (isIn(key, from, to)) rows.delete(key.toString('hex'))
    }
    for (const key of deletes) rows.delete(Buffer.from(key).toString('hex'))
    for (const [key, value] of puts) {
      rows.set(Buffer.from(key).toString('hex'), { key: Buffer.from(key), value: Buffer.from(value) })
    }
    this.rows = [...rows.values()].sort((a, b) => Buffer.compare(storedKey(a.key), storedKey(b.key)))
    this.version++
  }

  copy(): Model {
    const copy = new Model()
    copy.rows = this.rows
    copy.version = this.version
    return copy
  }
}

function isIn(key: Buffer, from: Uint8Array | undefined, to: Uint8Array | undefined): boolean {
  return (!from || Buffer.compare(key, from) >= 0) && (!to || Buffer.compare(key, to) < 0)
}

/** All rows of a range, page by page. */
export async function readAll(snapshot: Snapshot, range: KeyRange, rows = 7): Promise<ModelRow[]> {
  const found: ModelRow[] = []
  let rest: KeyRange | undefined = range
  while (rest) {
    const page: Page = await snapshot.page(rest, { rows })
    for (let row = 0; row < page.length; row++) found.push({ key: page.key(row), value: page.value(row) })
    rest = page.next
  }
  return found
}

export function asText(rows: readonly ModelRow[]): string[] {
  return rows.map(({ key, value }) => `${key.toString('hex')}=${value.toString('hex')}`)
}
