/**
 * Design documents, parsed, for callers of their functions. They are cached, up to a number of bytes, until the document
 * changes.
 */

import type { RevisionId } from '../../document/ids.ts'
import { notFound } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { DesignProgram, Functions } from '../../functions/functions.ts'
import type { DatabaseView } from '../database-view.ts'
import { stubText } from '../reading/document-text.ts'
import { openDocument } from '../reading/open-document.ts'
import type { DocumentEdit } from '../writing/edit.ts'

export interface DesignDocument {
  readonly id: string
  readonly revision: RevisionId
  readonly program: DesignProgram
  readonly members: Readonly<Record<string, unknown>>
}

/** The design documents in use, of all databases. */
export class DesignCache {
  readonly #entries = new Map<string, Entry>()
  readonly #roomBytes: number
  #bytes = 0

  constructor(roomBytes = 64 * 1024 * 1024) {
    this.#roomBytes = roomBytes
  }

  /** The document as it was read with this mark, if it was. */
  known(uuid: string, id: string, mark: object): DesignDocument | undefined {
    const place = `${uuid} ${id}`
    const known = this.#entries.get(place)
    if (known?.mark !== mark) return undefined
    this.#keep(place, known)
    return known.design
  }

  /**
   * The document as it is in this view of the database with that uuid. Throws when there is none. A mark stands for all
   * views in which design documents are the same.
   */
  async open(view: DatabaseView, uuid: string, id: string, mark?: object): Promise<DesignDocument> {
    const record = await view.record(id)
    if (!record) throw notFound('missing')
    if (record.deleted) throw notFound('deleted')
    const place = `${uuid} ${id}`
    const known = this.#entries.get(place)
    if (known?.sequence === record.sequence) {
      this.#keep(place, mark ? { ...known, mark } : known)
      return known.design
    }
    const text = stubText(await openDocument(view, id)).toString()
    const { sequence, winner: revision } = record
    const design = designDocument({ id, revision, key: `${uuid} ${id} ${sequence}`, text })
    this.#keep(place, { sequence, design, bytes: ENTRY_BYTES + PARSED_BYTES * text.length, mark })
    return design
  }

  /** Of a database that is deleted. */
  forget(uuid: string): void {
    for (const place of this.#entries.keys()) if (place.startsWith(`${uuid} `)) this.#drop(place)
  }

  /** As the one used last; those not used for the longest time make room. */
  #keep(place: string, entry: Entry): void {
    this.#drop(place)
    this.#entries.set(place, entry)
    this.#bytes += entry.bytes
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#roomBytes) break
      this.#drop(oldest)
    }
  }

  #drop(place: string): void {
    this.#bytes -= this.#entries.get(place)?.bytes ?? 0
    this.#entries.delete(place)
  }
}

/**
 * What an entry takes in memory: the text and what is parsed of it, also by those that keep it with the document, such as
 * views. For each character of the text, and for the smallest document.
 */
const PARSED_BYTES = 3
const ENTRY_BYTES = 2048

interface Entry {
  readonly sequence: number
  readonly design: DesignDocument
  readonly bytes: number
  /** Undefined where it was read without one. */
  readonly mark: object | undefined
}

interface DesignText {
  readonly id: string
  readonly revision: RevisionId
  readonly key: string
  readonly text: string
}

export function designDocument({ id, revision, key, text }: DesignText): DesignDocument {
  const parsed: unknown = JSON.parse(text)
  const members = isObject(parsed) ? parsed : {}
  return { id, revision, members, program: { id, key, language: languageOf(members), text } }
}

/** What cannot be the name of a language is one that nobody speaks. */
export function languageOf({ language = null }: Readonly<Record<string, unknown>>): string {
  if (language === null) return 'javascript'
  return typeof language === 'string' ? language : JSON.stringify(language)
}

const KINDS = ['validate_doc_update', 'filters', 'shows', 'lists', 'updates']

const LARGEST_BYTES = 256 * 1024

/**
 * Starts what runs the functions of a design document that was just written, so that the first call need not wait for it.
 * Map and reduce functions are compiled where indexes are built.
 */
export function prepareFunctions(functions: Functions, { deleted, body }: DocumentEdit): void {
  // A very large one would take longer to parse than the start that it saves.
  if (deleted || body.length > LARGEST_BYTES) return
  const members: unknown = JSON.parse(body.toString())
  if (isObject(members) && KINDS.some((kind) => Object.hasOwn(members, kind))) functions.prepare(languageOf(members))
}
