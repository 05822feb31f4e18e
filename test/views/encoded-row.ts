/** A row of an index as it is stored, out of its parts as JSON texts. */
import { encodeRowText } from '../../src/views/layout/index-layout.ts'

export interface RowParts {
  readonly id: Uint8Array
  readonly key: Uint8Array
  readonly value: Uint8Array
  readonly exact: boolean
}

export function encodeRow({ id, key, value, exact }: RowParts): Buffer {
  const end = key.length + value.length
  return encodeRowText(id, { block: Buffer.concat([key, value]), keyAt: 0, valueAt: key.length, end, exact })
}
