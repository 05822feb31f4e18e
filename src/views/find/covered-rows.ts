/** Covering indexes: if the selector and the fields need only columns and the id, no document is read. */

import { endOfValue } from '../../encoding/collation/plain-key-writer.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import type { Condition } from '../../selectors/condition.ts'
import { type FieldProjection, flatProjection } from '../../selectors/field-projection.ts'
import { beginDocument } from '../../selectors/match-work.ts'
import { conditionMatcher, type SelectorMatcher } from '../../selectors/selector-matcher.ts'
import { someElement } from '../../selectors/value-text.ts'
import type { StoredRow } from '../layout/index-layout.ts'
import type { FindRequest } from './find-request.ts'
import { FoundTexts } from './found-texts.ts'
import { fieldsOf } from './ranges/index-ranges.ts'
import type { SelectorIndex } from './selector-indexes.ts'

/** Whether an index holds all that a query needs. */
export function isCovered({ condition, fields, conflicts }: FindRequest, { columns }: SelectorIndex): boolean {
  if (!fields || conflicts) return false
  return [...fieldsOf(condition), ...fields.names].every((name) => name === '_id' || columns.includes(name))
}

/** Builds the requested fields from the rows. */
export class CoveredRows {
  readonly #matcher: SelectorMatcher
  readonly #fields: FieldProjection
  readonly #names: readonly Buffer[]

  constructor(condition: Condition, fields: readonly string[], columns: readonly string[]) {
    this.#matcher = conditionMatcher(flat(condition))
    this.#fields = flatProjection(fields)
    this.#names = columns.map((name) => Buffer.from(`,${JSON.stringify(name)}:`))
  }

  async ofRows(rows: readonly StoredRow[]): Promise<FoundTexts> {
    const slice = new TimeSlice()
    const texts = new FoundTexts()
    for (const row of rows) {
      const document = this.#flatDocument(row)
      if (this.#matcher.matches(document)) texts.add(this.#fields.project(document))
      else texts.pass()
      if (slice.isOverNow) await slice.pause()
    }
    return texts
  }

  /** An object whose members are the columns, by their whole names. */
  #flatDocument({ id, key }: StoredRow): Buffer {
    const pieces: Buffer[] = [BEFORE_ID, id]
    let column = 0
    beginDocument(key.length)
    someElement(key, 0, (at) => {
      const name = this.#names[column++]
      if (name) pieces.push(name, key.subarray(at, endOfValue(key, at)))
      return false
    })
    return Buffer.concat([...pieces, END])
  }
}

const BEFORE_ID = Buffer.from('{"_id":')
const END = Buffer.from('}')

/** The names of fields are those of members. */
function flat(condition: Condition): Condition {
  if (condition.kind === 'everything') return condition
  if (condition.kind === 'field') {
    const { name } = condition.field
    return { ...condition, field: { name, segments: [name] } }
  }
  return { ...condition, parts: condition.parts.map(flat) }
}
