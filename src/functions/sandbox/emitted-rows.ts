/** Collects emitted rows into one batch, and makes their sort keys. */
import { type Collation, CollationEncoder } from '../../encoding/collation/collation-key.ts'
import { MAPPED_FIELDS, type MappedBatch } from '../functions.ts'

/** JSON texts. */
export interface EmittedRow {
  readonly key: Buffer
  readonly value: Buffer
}

const ENCODERS: Readonly<Record<Collation, CollationEncoder>> = {
  unicode: new CollationEncoder('unicode'),
  raw: new CollationEncoder('raw'),
}

export class EmittedRows {
  readonly #pieces: Buffer[] = []
  readonly #fields: number[] = []
  #bytes = 0

  /** What one map function emitted for one document. */
  add(document: number, map: number, rows: readonly EmittedRow[], collation: Collation): void {
    const encoder = ENCODERS[collation]
    for (const { key, value } of rows) {
      const sortKey = encoder.encode(JSON.parse(key.toString()))
      const keyAt = this.#bytes + sortKey.length
      const valueAt = keyAt + key.length
      const end = valueAt + value.length
      this.#fields.push(document, map, encoder.exact ? 1 : 0, this.#bytes, keyAt, valueAt, end)
      this.#pieces.push(sortKey, key, value)
      this.#bytes = end
    }
  }

  batch(): MappedBatch {
    return {
      rows: this.#fields.length / MAPPED_FIELDS,
      block: Buffer.concat(this.#pieces, this.#bytes),
      fields: Uint32Array.from(this.#fields),
    }
  }
}
