/** Design documents and their functions; edited as text, so that the rest of them stays as it is. */
import { arrayItems, memberText, stringOf, topLevelMembers, withMember, withoutMembers } from '../json/json-text.ts'
import { documentPath, path, requestJson, requestText } from './client.ts'
import { saveDocument } from './documents.ts'

export type FunctionKind = 'views' | 'filters' | 'updates' | 'shows' | 'lists' | 'validate_doc_update'

export interface DesignFunction {
  readonly kind: FunctionKind
  readonly name: string
  readonly hasReduce: boolean
}

export interface Design {
  /** Without `_design/`. */
  readonly name: string
  readonly rev: string
  readonly text: string
  readonly language: string
  readonly functions: readonly DesignFunction[]
}

const KINDS: readonly FunctionKind[] = ['views', 'filters', 'updates', 'shows', 'lists']
const LIMIT_BYTES = 16 * 1024 * 1024

export async function listDesigns(database: string): Promise<Design[]> {
  const text = await requestText(`${path(database)}/_all_docs`, {
    query: { startkey: '"_design/"', endkey: '"_design0"', include_docs: true },
    limitBytes: LIMIT_BYTES,
  })
  return arrayItems(memberText(text, 'rows') ?? '[]').flatMap((row) => {
    const document = memberText(row, 'doc')
    return document?.startsWith('{') ? [designOf(document)] : []
  })
}

function designOf(text: string): Design {
  const functions = KINDS.flatMap((kind) => {
    const group = memberText(text, kind)
    if (!group?.startsWith('{')) return []
    return topLevelMembers(group).map(({ name, valueStart, valueEnd }) => {
      const value = group.slice(valueStart, valueEnd)
      return { kind, name, hasReduce: kind === 'views' && memberText(value, 'reduce') !== undefined }
    })
  })
  const validation: DesignFunction[] =
    memberText(text, 'validate_doc_update') === undefined
      ? []
      : [{ kind: 'validate_doc_update', name: 'validate_doc_update', hasReduce: false }]
  return {
    name: (stringOf(memberText(text, '_id')) ?? '').replace(/^_design\//, ''),
    rev: stringOf(memberText(text, '_rev')) ?? '',
    text,
    language: stringOf(memberText(text, 'language')) ?? 'javascript',
    functions: [...functions, ...validation],
  }
}

/** The source of a function; of a view, its map and reduce. */
export interface FunctionSource {
  readonly map: string
  readonly reduce: string
}

export function sourceOf({ text }: Design, { kind, name }: DesignFunction): FunctionSource {
  if (kind === 'validate_doc_update') return { map: stringOf(memberText(text, kind)) ?? '', reduce: '' }
  const value = memberText(memberText(text, kind) ?? '{}', name) ?? '""'
  if (kind !== 'views') return { map: stringOf(value) ?? '', reduce: '' }
  return { map: stringOf(memberText(value, 'map')) ?? '', reduce: stringOf(memberText(value, 'reduce')) ?? '' }
}

export function withSource(text: string, { kind, name }: DesignFunction, source: FunctionSource): string {
  if (kind === 'validate_doc_update') return withMember(text, kind, JSON.stringify(source.map))
  const group = memberText(text, kind) ?? '{}'
  const before = memberText(group, name) ?? '{}'
  const value = kind === 'views' ? viewText(before, source) : JSON.stringify(source.map)
  return withMember(text, kind, withMember(group, name, value))
}

function viewText(before: string, { map, reduce }: FunctionSource): string {
  const withMap = withMember(before, 'map', JSON.stringify(map))
  if (reduce !== '') return withMember(withMap, 'reduce', JSON.stringify(reduce))
  return withoutMembers(withMap, ['reduce'])
}

export async function saveDesign(database: string, name: string, text: string): Promise<void> {
  await saveDocument(database, `_design/${name}`, text)
}

export interface IndexInformation {
  readonly view_index: {
    readonly disk_size?: number
    readonly data_size?: number
    readonly sizes?: { readonly file: number; readonly active: number }
    readonly updater_running: boolean
    readonly compact_running: boolean
    readonly update_seq: number | string
    readonly signature: string
  }
}

export function indexInformation(database: string, name: string): Promise<IndexInformation> {
  return requestJson(`${documentPath(database, `_design/${name}`)}/_info`)
}
