/** `_changes`: the changes of a database, as one reply, by long polling, or continuously. */
import type { AttachmentContents } from '../../database/attachments/attachment-store.ts'
import { type ChangesQuery, ChangesReader } from '../../database/changes/changes-reader.ts'
import type { Database } from '../../database/database.ts'
import type { FieldProjection } from '../../selectors/field-projection.ts'
import { requireJsonType } from '../bodies/request-body.ts'
import { functionBody } from '../design-functions/function-request.ts'
import { type Answer, entityTag, notModified, streamed } from '../server/answer.ts'
import { authenticationOf, databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { followedChanges, presentChanges, type RightToRead } from './changes-feed.ts'
import { requestedFilter, shownFields } from './changes-filter.ts'
import { type ChangesParameters, changesParameters } from './changes-query.ts'
import { FEED_TEXTS } from './changes-text.ts'
import { Feed } from './feed.ts'

export async function getChanges(call: Call, context: HttpContext): Promise<Answer> {
  return changes(call, context, undefined)
}

export async function postChanges(call: Call, context: HttpContext): Promise<Answer> {
  requireJsonType(call)
  return changes(call, context, await functionBody(call, context))
}

/** The default of the longest time that a client may wait for a change. */
const PATIENCE_MS = 60_000

async function changes(call: Call, context: HttpContext, body: string | undefined): Promise<Answer> {
  const database = await databaseOf(call)
  database.reading?.check('changes')
  const patience = context.configuration.get('httpd', 'changes_timeout')
  const parameters = changesParameters(call, patience === undefined ? PATIENCE_MS : Number(patience))
  if (parameters.foreignSince !== undefined) {
    const details = { database: database.name, since: parameters.foreignSince }
    context.log.info('The sequence was issued by another server. The changes feed begins at the start.', details)
  }
  const filter = await requestedFilter({ call, context, database, parameters, body })
  const fields = shownFields({ call, context, database, parameters, body })
  const request = { call, context, database, parameters, filter, fields, body }
  return parameters.feed === 'normal' ? present(request) : following(request)
}

interface ChangesRequest {
  readonly call: Call
  readonly context: HttpContext
  readonly database: Database
  readonly parameters: ChangesParameters
  readonly filter: ChangesQuery['filter']
  readonly fields: FieldProjection | undefined
  readonly body: string | undefined
}

async function present(request: ChangesRequest): Promise<Answer> {
  const { call, database, parameters } = request
  const text = FEED_TEXTS.normal
  const view = database.lastingView()
  try {
    const { updateSequence } = await view.state()
    const tag = tagOf(request, updateSequence)
    if (call.hasTag(tag)) {
      view.release()
      return notModified(tag)
    }
    const reader = new ChangesReader(
      database,
      queryOf(request, updateSequence, database.attachments.beside(view.snapshot)),
    )
    const first = await reader.nextIn(view)
    const lastSequence = () => (parameters.descending ? (reader.shown ?? updateSequence) : reader.cursor)
    const leave = countClient(request)
    return streamed(presentChanges({ reader, first, text }, view, lastSequence), {
      headers: { ETag: tag },
      release: () => {
        view.release()
        leave()
      },
    })
  } catch (error) {
    view.release()
    throw error
  }
}

async function following(request: ChangesRequest): Promise<Answer> {
  const { call, context, database, parameters } = request
  const { feed: kind, idle } = parameters
  const text = FEED_TEXTS[kind]
  const feed = new Feed(call.reply, context.deadlines, idle)
  // Before the first read: whatever is committed after it notifies the feed.
  const unsubscribe = database.changes.subscribe(() => feed.notify())
  const leaveFeeds = context.feeds.enter(kind)
  const end = () => {
    leaveFeeds()
    unsubscribe()
    feed[Symbol.dispose]()
  }
  try {
    const updateSequence = await newestSequence(database)
    const reader = new ChangesReader(database, queryOf(request, updateSequence, database.attachments))
    const first = await reader.next()
    const firstRound = kind === 'longpoll' ? { lastSequence: updateSequence } : undefined
    const right = rightToRead(call, database)
    const leave = countClient(request)
    return streamed(followedChanges({ reader, first, text, database, feed, idle, firstRound, right }), {
      headers: text.headers,
      isFlushed: true,
      feed,
      release: () => {
        end()
        leave()
      },
    })
  } catch (error) {
    end()
    throw error
  }
}

async function newestSequence(database: Database): Promise<number> {
  using view = database.view()
  return (await view.state()).updateSequence
}

function queryOf(
  { database, parameters, filter, fields }: ChangesRequest,
  updateSequence: number,
  contents: AttachmentContents,
): ChangesQuery {
  const { feed, leaves, limit, documents } = parameters
  // A feed that waits for new changes cannot be descending: it begins at the end.
  const isFromEnd = parameters.since === 'now' || (parameters.descending && feed !== 'normal')
  const isShared = !filter && !database.reading && !documents?.contents
  return {
    since: isFromEnd ? updateSequence : parameters.since,
    descending: parameters.descending && feed === 'normal',
    limit,
    leaves,
    documents: documents && {
      ...documents,
      contents: documents.contents && !fields ? contents : undefined,
      fields,
    },
    filter,
    frame: FEED_TEXTS[feed].frame,
    sharedAs: isShared ? JSON.stringify([feed, leaves, documents]) : undefined,
  }
}

function countClient({ context }: ChangesRequest): () => void {
  return context.statistics.enter('httpd', 'clients_requesting_changes')
}

/** To be checked again after the security object was set. */
function rightToRead(call: Call, database: Database): RightToRead {
  const { auth, user } = authenticationOf(call)
  let known = database.securityChanges
  return {
    get isDoubtful() {
      return database.securityChanges !== known
    },
    async holds() {
      known = database.securityChanges
      try {
        const opened = await auth.access.open(database.name, user)
        opened.reading?.check('changes')
        return true
      } catch {
        return false
      }
    },
  }
}

/** Depends on the update sequence, the user and the request: filter functions see the user. */
function tagOf({ call, database, body }: ChangesRequest, updateSequence: number): string {
  const { name, roles } = authenticationOf(call).user
  return entityTag(database.uuid, database.epochUs, updateSequence, call.url, body ?? null, name, roles)
}
