/**
 * Everything that the store of a database holds, row by row, in plain maps. Reads what is there without trusting any of
 * it: a row that cannot be decoded is a fault, reported in a sentence.
 */
import { type ChangeRow, decodeChange } from '../../src/database/layout/change-row.ts'
import {
  type DocumentRecord,
  decodeLocal,
  decodeRecord,
  type LocalDocument,
} from '../../src/database/layout/document-record.ts'
import {
  ATTACHMENT_PREFIX,
  bodyKey,
  changeKey,
  type DatabaseState,
  decodeState,
  documentKey,
  IDENTITY_KEY,
  idOfDocumentKey,
  localKey,
  numberOfAttachmentKey,
  purgeKey,
  RANK_PREFIX,
  SECURITY_KEY,
  STATE_KEY,
  sequenceOfChangeKey,
  treeKey,
} from '../../src/database/layout/keys.ts'
import { decodeBody, type StoredBody } from '../../src/database/layout/stored-body.ts'
import type { RevisionTree } from '../../src/document/tree/revision-tree.ts'
import { decodeTree } from '../../src/document/tree/tree-codec.ts'
import type { KeyRange, Page, Snapshot } from '../../src/storage/store.ts'

export class DatabaseContents {
  state: DatabaseState | undefined
  /** Decides the shape of the rank tree. */
  salt: Buffer | undefined
  readonly records = new Map<string, DocumentRecord>()
  /** Those that lie apart from their records. */
  readonly treesApart = new Map<string, RevisionTree>()
  readonly changes = new Map<number, ChangeRow & { readonly sequence: number }>()
  readonly bodies = new Map<number, StoredBody>()
  /** The sizes of the chunks of each attachment. */
  readonly attachments = new Map<number, number[]>()
  /** By their ids, which begin with `_local/`. */
  readonly locals = new Map<string, LocalDocument>()
  readonly purges = new Map<number, unknown>()
  /** Rows that cannot be understood. */
  readonly faults: string[] = []

  static async read(snapshot: Snapshot): Promise<DatabaseContents> {
    const contents = new DatabaseContents()
    for (let rest: KeyRange | undefined = {}; rest; ) {
      const page: Page = await snapshot.page(rest)
      for (let row = 0; row < page.length; row++) contents.#note(page.key(row), page.value(row))
      rest = page.next
    }
    return contents
  }

  /** The tree of a document, wherever it lies. */
  treeOf(id: string): RevisionTree | undefined {
    const record = this.records.get(id)
    return record && (record.tree ?? this.treesApart.get(id))
  }

  #note(key: Buffer, value: Buffer): void {
    try {
      this.#understand(key, value)
    } catch (error) {
      this.faults.push(`The row ${nameOf(key)} cannot be understood: ${error}`)
    }
  }

  #understand(key: Buffer, value: Buffer): void {
    switch (key[0]) {
      case prefixOf(documentKey('')): {
        const id = idOfDocumentKey(key)
        if (!documentKey(id).equals(key)) throw new Error('its id is not UTF-8')
        this.records.set(id, decodeRecord(value))
        break
      }
      case prefixOf(treeKey('')):
        this.treesApart.set(key.toString('utf8', 1), decodeTree(value))
        break
      case prefixOf(changeKey(0)):
        this.changes.set(sequenceOfChangeKey(key), decodeChange(value))
        break
      case prefixOf(bodyKey(0)):
        this.bodies.set(numberOf(key), bodyOf(value))
        break
      case prefixOf(ATTACHMENT_PREFIX): {
        const chunks = this.attachments.get(numberOfAttachmentKey(key)) ?? []
        if (key.readUInt32BE(9) !== chunks.length) throw new Error('a chunk before it is missing')
        this.attachments.set(numberOfAttachmentKey(key), [...chunks, value.length])
        break
      }
      case prefixOf(localKey('')): {
        const local = decodeLocal(value)
        assertObject(local.text)
        this.locals.set(key.toString('utf8', 1), local)
        break
      }
      case prefixOf(purgeKey(0)):
        this.purges.set(numberOf(key), JSON.parse(value.toString()))
        break
      case prefixOf(RANK_PREFIX):
        // Held against the records by the tree itself.
        break
      default:
        this.#understandMeta(key, value)
    }
  }

  #understandMeta(key: Buffer, value: Buffer): void {
    if (key.equals(STATE_KEY)) this.state = decodeState(value)
    else if (key.equals(IDENTITY_KEY)) this.salt = Buffer.from(JSON.parse(value.toString()).salt, 'hex')
    else if (key.equals(SECURITY_KEY)) assertObject(value)
    else throw new Error('there is no such kind of row')
  }
}

function prefixOf(key: Buffer): number {
  return key[0]!
}

function numberOf(key: Buffer): number {
  if (key.length !== 9) throw new Error('its key is no number')
  return Number(key.readBigUInt64BE(1))
}

function bodyOf(bytes: Buffer): StoredBody {
  const body = decodeBody(bytes)
  assertObject(body.text)
  return body
}

function assertObject(bytes: Buffer): void {
  const value: unknown = JSON.parse(bytes.toString())
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('it is no JSON object')
}

function nameOf(key: Buffer): string {
  return `'${key.toString('latin1').slice(0, 40)}'`
}
