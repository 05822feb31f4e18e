/**
 * Imports one database: what is about the database itself, then its documents with history, conflicts and attachments, then its
 * design documents. What is there already is not sent again, so an interrupted import continues where it stopped.
 */
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../encoding/json/json-value.ts'
import type { HttpAgents } from '../../replication/client/http-agents.ts'
import { openRemoteSource, openRemoteTarget } from '../../replication/peers/open-peers.ts'
import type { TargetPeer } from '../../replication/peers/peer.ts'
import { Replication } from '../../replication/replication.ts'
import { parseReplicationRequest } from '../../replication/replication-request.ts'
import type { ReplicationOptions, TlsSettings } from '../../replication/replication-settings.ts'
import { systemClock } from '../../runtime/clock.ts'
import { silentLog } from '../../runtime/log/log.ts'
import { CommandError, messageOf } from '../command-error.ts'
import { databasePath, type ServerAddress, type ServerClient, ServerError } from '../server-client.ts'
import type { DatabaseReport, DocumentCounts, RefusedDocument } from './import-report.ts'
import { type ImportPart, ImportSource } from './import-source.ts'

export interface Side {
  readonly address: ServerAddress
  readonly client: ServerClient
}

export interface ImportContext {
  readonly source: Side
  readonly target: Side
  readonly agents: HttpAgents
  readonly withLocalDocuments: boolean
  /** Begins from the first change, whatever an earlier import wrote down. */
  readonly isFresh: boolean
  readonly signal: AbortSignal
  onProgress(share: number, detail: string): void
  leaveOut(what: string, why: string): void
}

/** Of a replication in one process, which has the machine for itself. */
const OPTIONS: ReplicationOptions = {
  workerProcesses: 4,
  workerBatchSize: 500,
  httpConnections: 20,
  connectionTimeoutMs: 60_000,
  retriesPerRequest: 10,
  checkpointIntervalMs: 5000,
  useCheckpoints: true,
}

const TLS: TlsSettings = {
  certFile: undefined,
  keyFile: undefined,
  password: undefined,
  trustedCertificatesFile: undefined,
  verifyCertificates: true,
}

const SHOWN_REFUSALS = 20
const LOCAL_PAGE = 500

/** Documents that servers make for themselves. */
const OWN_DESIGNS: ReadonlySet<string> = new Set(['_design/_auth', '_design/_replicator'])

export async function importDatabase(name: string, context: ImportContext): Promise<DatabaseReport> {
  const { source, target } = context
  const path = databasePath(name)
  const information = await source.client.json('GET', path)
  const expected = countsIn(information)
  const refused: RefusedDocument[] = []
  const count = { refused: 0, written: 0 }
  const onRefused = (document: RefusedDocument) => {
    count.refused++
    if (refused.length < SHOWN_REFUSALS) refused.push(document)
  }
  const isPartitioned = isObject(information) && isObject(information.props) && information.props.partitioned === true
  if (!name.startsWith('_')) await createTarget(path, isPartitioned, target.client)
  // Before the first document: nobody may read what they must not, and no history is cut.
  await copySecurity(name, context)
  await copyRevisionLimit(path, context)
  for (const part of ['documents', 'design documents'] as const) {
    const { docs_written } = await replicate(name, part, { expected, onRefused }, context)
    count.written += docs_written
  }
  const localDocuments = context.withLocalDocuments ? await copyLocalDocuments(name, context) : 0
  // The source may change meanwhile.
  const [now, reached] = await Promise.all([countsOf(name, source.client), countsOf(name, target.client)])
  return {
    name,
    source: now,
    target: reached,
    revisionsWritten: count.written,
    localDocuments,
    refused,
    refusedCount: count.refused,
  }
}

interface Replicated {
  readonly expected: DocumentCounts
  onRefused(document: RefusedDocument): void
}

async function replicate(name: string, part: ImportPart, { expected, onRefused }: Replicated, context: ImportContext) {
  const { source, target, agents, signal, onProgress } = context
  const url = `${source.address.url}${databasePath(name)}`
  const base = `import-${createHash('sha256')
    .update(JSON.stringify([url, part]))
    .digest('hex')
    .slice(0, 32)}`
  const isFresh = context.isFresh || hadRefusals(await target.client.find(`${databasePath(name)}/_local/${base}`))
  const request = parseReplicationRequest(
    {
      source: endpointOf(source.address, name),
      target: endpointOf(target.address, name),
      ...(isFresh && { since_seq: 0 }),
    },
    { name: null, roles: [] },
    OPTIONS,
  )
  const { source: from, target: to } = request
  if (from.kind === 'local' || to.kind === 'local') throw new CommandError('An import needs two servers.')
  let opened: TargetPeer | undefined
  const logTarget = () => {
    if (!opened) throw new Error('The target is not open yet.')
    return opened
  }
  const services = { agents, tls: TLS }
  const excluded = name.startsWith('_') ? OWN_DESIGNS : new Set<string>()
  const replication = new Replication({ base, extension: '', full: base }, request, {
    clock: systemClock,
    log: { ...silentLog, warn: (_message, details) => onRefused(refusalIn(details)) },
    peers: {
      source: async (_, ending) =>
        new ImportSource(openRemoteSource(from, request, services, ending), { part, target: logTarget, excluded }),
      target: async (_, ending) => {
        opened = await openRemoteTarget(to, request, services, ending)
        return opened
      },
    },
  })
  const total = expected.documents + expected.deleted
  replication.onProgress = () => {
    const { revisions_checked, docs_written, progress } = replication.progress()
    const share = progress === null ? revisions_checked / Math.max(1, total) : progress / 100
    onProgress(share, `${docs_written} ${part} written`)
  }
  return (await replication.run(signal)).progress
}

/** Whether the last import refused revisions: they lie before its checkpoint, and are tried and reported again. */
function hadRefusals(log: unknown): boolean {
  const [last]: unknown[] = isObject(log) && Array.isArray(log.history) ? log.history : []
  return isObject(last) && Number(last.doc_write_failures) > 0
}

function endpointOf({ url, user, password }: ServerAddress, name: string): unknown {
  const auth = user === undefined ? {} : { auth: { basic: { username: user, password: password ?? '' } } }
  return { url: `${url}${databasePath(name)}`, ...auth }
}

function refusalIn(details: object | undefined): RefusedDocument {
  const { id, revision, error } = { id: '', revision: '', error: '', ...details }
  return { id: String(id), revision: String(revision), reason: String(error) }
}

/** Without the design documents that each server makes for itself. */
async function countsOf(name: string, client: ServerClient): Promise<DocumentCounts> {
  const path = databasePath(name)
  const { documents, deleted } = countsIn(await client.json('GET', path))
  if (!name.startsWith('_')) return { documents, deleted }
  const own = await Promise.all([...OWN_DESIGNS].map((id) => client.find(`${path}/${id}`)))
  return { documents: documents - own.filter((design) => design !== undefined).length, deleted }
}

function countsIn(information: unknown): DocumentCounts {
  const { doc_count, doc_del_count } = isObject(information) ? information : {}
  return { documents: Number(doc_count ?? 0), deleted: Number(doc_del_count ?? 0) }
}

async function createTarget(path: string, isPartitioned: boolean, client: ServerClient): Promise<void> {
  try {
    await client.json('PUT', `${path}${isPartitioned ? '?partitioned=true' : ''}`)
  } catch (error) {
    const isThere = error instanceof ServerError && error.status === 412
    if (!isThere) throw error
  }
}

/** Throws where it cannot be read: documents whose readers are not known are not imported. */
async function copySecurity(name: string, { source, target, leaveOut }: ImportContext): Promise<void> {
  const path = `${databasePath(name)}/_security`
  let security: unknown
  try {
    security = await source.client.json('GET', path)
  } catch (error) {
    const hasNone = error instanceof ServerError && WITHOUT_SECURITY.has(error.status)
    if (!hasNone) throw error
    leaveOut(`_security of ${name}`, error.message)
    return
  }
  const own = await target.client.json('GET', path)
  if (isObject(security) && !isDeepStrictEqual(security, own)) await target.client.json('PUT', path, security)
}

/** What servers answer that know no such thing. */
const WITHOUT_SECURITY: ReadonlySet<number> = new Set([404, 405, 501])

async function copyRevisionLimit(path: string, { source, target, leaveOut }: ImportContext): Promise<void> {
  await orLeftOut(`_revs_limit of ${path}`, leaveOut, async () => {
    const limit = await source.client.json('GET', `${path}/_revs_limit`)
    const own = await target.client.json('GET', `${path}/_revs_limit`)
    if (typeof limit === 'number' && limit !== own) await target.client.json('PUT', `${path}/_revs_limit`, limit)
  })
}

/** In pages. Releases before 2 cannot list them. */
async function copyLocalDocuments(name: string, { source, target, leaveOut }: ImportContext): Promise<number> {
  const path = databasePath(name)
  let copied = 0
  await orLeftOut(`_local documents of ${name}`, leaveOut, async () => {
    for (let after = ''; ; ) {
      const start = after === '' ? '' : `&startkey=${encodeURIComponent(JSON.stringify(after))}&skip=1`
      const page = await source.client.json('GET', `${path}/_local_docs?include_docs=true&limit=${LOCAL_PAGE}${start}`)
      const rows = isObject(page) && Array.isArray(page.rows) ? page.rows.filter(isObject) : []
      const before = after
      for (const { id, doc } of rows) {
        after = String(id)
        if (!isObject(doc) || after.startsWith('_local/import-')) continue
        const { _rev: _, ...members } = doc
        const place = `${path}/_local/${encodeURIComponent(after.replace(/^_local\//, ''))}`
        const own = await target.client.find(place)
        const revision = isObject(own) && typeof own._rev === 'string' ? { _rev: own._rev } : {}
        await target.client.json('PUT', place, { ...members, ...revision })
        copied++
      }
      if (rows.length < LOCAL_PAGE) return
      // It would be read for ever.
      if (after === before) throw new CommandError('The source does not continue its list of them.')
    }
  })
  return copied
}

async function orLeftOut(
  what: string,
  leaveOut: (what: string, why: string) => void,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (error instanceof CommandError) leaveOut(what, messageOf(error))
    else throw error
  }
}
