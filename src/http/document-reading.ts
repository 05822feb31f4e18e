/** `GET` of a document: the winner, a revision, or several of them. */
import type { Database } from '../database/database.ts'
import { inlineText, stubText } from '../database/document-rendering.ts'
import {
  type FoundRevision,
  type OpenedDocument,
  openDocument,
  openRevision,
  openRevisions,
  type ReadOptions,
} from '../database/open-document.ts'
import { isLocalId } from '../document/document-id.ts'
import { acceptsMultipart } from './acceptance.ts'
import { type Answer, notModified, streamed } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { databaseOf } from './database-resource.ts'
import {
  type ContentsWanted,
  contentsAnswer,
  contentsWanted,
  jsonParameter,
  multipartSource,
  revisionList,
  stubAnswer,
} from './document-answer.ts'
import { documentIdOf, isEscapedDesign, redirectToDesign } from './document-path.ts'
import { newBoundary, openRevisionsBody, type RevisionPart } from './multipart-writer.ts'
import { revisionParameter } from './revision-parameter.ts'

export async function readDocument(call: Call, context: HttpContext): Promise<Answer> {
  const id = documentIdOf(call)
  if (isEscapedDesign(call)) return redirectToDesign(call)
  const database = await databaseOf(call, context)
  const contents = contentsWanted(call)
  const openRevs = call.query('open_revs')
  if (openRevs !== undefined && openRevs !== '[]' && !isLocalId(id)) {
    return readRevisions(call, database, id, openRevs, contents)
  }
  const options = readOptions(call, contents)
  const document = await readOne(call, database, id, options)
  const tag = `"${document.revision}"`
  const isTagged = hasTag(options)
  if (isTagged && call.hasTag(tag)) return notModified(tag)
  const headers = isTagged ? { ETag: tag } : {}
  return contents ? contentsAnswer(call, database, document, headers) : stubAnswer(call, document, headers)
}

async function readOne(call: Call, database: Database, id: string, options: ReadOptions): Promise<OpenedDocument> {
  const revision = revisionParameter(call)
  const view = database.view()
  // `using` would do, at a price that shows in the most frequent request of all.
  try {
    if (revision === undefined) return await openDocument(view, id, options)
    return await openRevision(view, id, revision, { ...options, latest: call.querySwitch('latest') })
  } finally {
    view.release()
  }
}

/** A revision says nothing about what is beside it, such as conflicts. */
function hasTag({ revisionsInfo, conflicts, deletedConflicts, localSequence }: ReadOptions): boolean {
  return !(revisionsInfo || conflicts || deletedConflicts || localSequence)
}

function readOptions(call: Call, contents: ContentsWanted | undefined): ReadOptions {
  if (!call.hasQuery) return NO_OPTIONS
  const meta = call.querySwitch('meta')
  return {
    revisions: call.querySwitch('revs'),
    revisionsInfo: meta || call.querySwitch('revs_info'),
    conflicts: meta || call.querySwitch('conflicts'),
    deletedConflicts: meta || call.querySwitch('deleted_conflicts'),
    localSequence: call.querySwitch('local_seq'),
    known: contents?.known,
  }
}

const NO_OPTIONS: ReadOptions = {}

async function readRevisions(
  call: Call,
  database: Database,
  id: string,
  openRevs: string,
  contents: ContentsWanted | undefined,
): Promise<Answer> {
  const wanted = openRevs === 'all' ? 'all' : revisionList(jsonParameter(openRevs), 'open_revs')
  using view = database.view()
  const found = await openRevisions(view, id, wanted, {
    revisions: call.querySwitch('revs'),
    latest: call.querySwitch('latest'),
    known: contents?.known,
  })
  view.release()
  if (!acceptsMultipart(call, 'mixed')) return streamed(revisionTexts(call, database, found, contents !== undefined))
  const boundary = newBoundary()
  const parts = found.map((each) => revisionPart(database, id, each))
  return streamed(openRevisionsBody(parts, boundary), {
    headers: { 'Content-Type': `multipart/mixed; boundary="${boundary}"` },
  })
}

function revisionPart(database: Database, id: string, each: FoundRevision): RevisionPart {
  if (!each.found) return { kind: 'failure', json: JSON.stringify({ missing: each.revision }) }
  return { kind: 'document', id, rev: each.document.revision, source: multipartSource(database, each.document) }
}

async function* revisionTexts(
  call: Call,
  database: Database,
  found: readonly FoundRevision[],
  hasContents: boolean,
): AsyncGenerator<string | Buffer> {
  const options = { encodingInfo: call.querySwitch('att_encoding_info') }
  let separator = '['
  for (const each of found) {
    yield separator
    separator = ','
    if (!each.found) yield `{"missing":${JSON.stringify(each.revision)}}`
    else {
      yield '{"ok":'
      if (hasContents) yield* inlineText(each.document, database.attachments, options).chunks()
      else yield stubText(each.document, options)
      yield '}'
    }
  }
  yield found.length === 0 ? '[]\n' : ']\n'
}
