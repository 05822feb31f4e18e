/** `GET` of a document: the winner, a revision, or several of them. */
import type { Database } from '../../database/database.ts'
import type { DatabaseView } from '../../database/database-view.ts'
import { inlineText, stubText, wantedAttachments } from '../../database/reading/document-rendering.ts'
import {
  type FoundRevision,
  openDocument,
  openRevision,
  type ReadOptions,
} from '../../database/reading/open-document.ts'
import { openKept } from '../../database/reading/open-kept.ts'
import type { OpenedDocument } from '../../database/reading/opened-document.ts'
import { openRevisionPortions, type RevisionPortions } from '../../database/reading/revision-portions.ts'
import { isLocalId } from '../../document/document-id.ts'
import { newBoundary, openRevisionsBody, type RevisionPart } from '../../multipart/multipart-writer.ts'
import { databaseOf } from '../databases/database-resource.ts'
import { acceptsMultipart } from '../negotiation/acceptance.ts'
import { enclosed } from '../negotiation/enclosed-text.ts'
import { type Answer, notModified, streamed } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
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
  if (contents) return readWithContents(call, database, id, options)
  const document = await readOne(call, database, id, options)
  const tag = tagOf(document, options)
  if (tag && call.hasTag(tag)) return notModified(tag)
  return stubAnswer(call, document, tag ? { ETag: tag } : {})
}

async function readOne(call: Call, database: Database, id: string, options: ReadOptions): Promise<OpenedDocument> {
  const view = database.view()
  // `using` would do, at a price that shows in the most frequent request of all.
  try {
    return await openOne(call, view, id, options)
  } finally {
    view.release()
  }
}

function openOne(call: Call, view: DatabaseView, id: string, options: ReadOptions): Promise<OpenedDocument> {
  const revision = revisionParameter(call)
  if (revision === undefined) return openDocument(view, id, options)
  return openRevision(view, id, revision, { ...options, latest: call.querySwitch('latest') })
}

async function readWithContents(call: Call, database: Database, id: string, options: ReadOptions): Promise<Answer> {
  const { opened: document, release } = await openKept(
    database,
    (view) => openOne(call, view, id, options),
    wantedAttachments,
  )
  const tag = tagOf(document, options)
  if (!tag || !call.hasTag(tag)) return contentsAnswer(call, database, document, tag ? { ETag: tag } : {}, release)
  release()
  return notModified(tag)
}

/** Undefined where the revision does not tell all that is in the reply. */
function tagOf({ revision }: OpenedDocument, options: ReadOptions): string | undefined {
  return hasTag(options) ? `"${revision}"` : undefined
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
  const options = {
    revisions: call.querySwitch('revs'),
    latest: call.querySwitch('latest'),
    known: contents?.known,
  }
  const isMultipart = acceptsMultipart(call, 'mixed')
  const found = await openRevisionPortions(database, id, wanted, {
    ...options,
    contents: isMultipart || contents !== undefined,
  })
  const release = () => found[Symbol.dispose]()
  if (!isMultipart) return streamed(revisionTexts(call, database, found, contents !== undefined), { release })
  const boundary = newBoundary()
  return streamed(openRevisionsBody(revisionParts(database, id, found), boundary), {
    headers: { 'Content-Type': `multipart/mixed; boundary="${boundary}"` },
    release,
  })
}

async function* revisionParts(database: Database, id: string, found: RevisionPortions): AsyncGenerator<RevisionPart> {
  for await (const portion of found.portions()) {
    for (const each of portion) yield revisionPart(database, id, each)
  }
}

function revisionPart(database: Database, id: string, each: FoundRevision): RevisionPart {
  if (!each.found) return { kind: 'failure', json: JSON.stringify({ missing: each.revision }) }
  return { kind: 'document', id, rev: each.document.revision, source: multipartSource(database, each.document) }
}

async function* revisionTexts(
  call: Call,
  database: Database,
  found: RevisionPortions,
  hasContents: boolean,
): AsyncGenerator<string | Buffer> {
  const options = { encodingInfo: call.querySwitch('att_encoding_info') }
  let separator = '['
  for await (const portion of found.portions()) {
    for (const each of portion) {
      if (!each.found) yield `${separator}{"missing":${JSON.stringify(each.revision)}}`
      else if (hasContents) {
        yield `${separator}{"ok":`
        yield* inlineText(each.document, database.attachments, options).chunks()
        yield '}'
      } else yield enclosed(`${separator}{"ok":`, stubText(each.document, options), '}')
      separator = ','
    }
  }
  yield found.isEmpty ? '[]\n' : ']\n'
}
