/** A reply of `_all_docs`. */
export interface Listing {
  total_rows: number
  offset?: number
  update_seq?: number
  rows: ListedRow[]
}

export interface ListedRow {
  id?: string
  key: unknown
  value?: { rev: string; deleted?: true }
  doc?: unknown
  error?: string
}
