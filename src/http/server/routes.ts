/**
 * Every resource of the server in one table: path, methods, rights and handlers. Also the resources that the operator
 * adds by settings, which cannot replace one of the table.
 */

import type { Configuration } from '../../config/configuration.ts'
import { parseTerm } from '../../config/term-text.ts'
import { deleteSetting, readSettings, writeSetting } from '../admin/config-resource.ts'
import { readLog, writeLog } from '../admin/log-resource.ts'
import { membership, nodeResource } from '../admin/node-resource.ts'
import { oauth } from '../admin/oauth-resource.ts'
import { forwardRequest } from '../admin/proxy-resource.ts'
import { replicate } from '../admin/replicate-resource.ts'
import { scheduler } from '../admin/scheduler-resource.ts'
import {
  activeTasks,
  allDatabases,
  installPlugin,
  restart,
  serverInformation,
  statistics,
  up,
  uuids,
} from '../admin/server-resource.ts'
import { login, logout, sessionInformation } from '../admin/session-resource.ts'
import { favicon, utilities } from '../admin/utils-resource.ts'
import { deleteAttachment, ofDesign, putAttachment, readAttachment } from '../attachments/attachment-resource.ts'
import { uploadForm } from '../attachments/form-upload.ts'
import { requireJsonType } from '../bodies/request-body.ts'
import { getChanges, postChanges } from '../changes/changes-resource.ts'
import { databaseUpdates } from '../changes/db-updates-resource.ts'
import { readBackup, writeRestore } from '../databases/backup-resource.ts'
import {
  compact,
  createDatabase,
  databaseInformation,
  deleteDatabase,
  ensureFullCommit,
  refuseRevision,
  revisionLimit,
  setRevisionLimit,
  shardOfDocument,
  shards,
  syncShards,
} from '../databases/database-resource.ts'
import { allDatabasesInformation, namedDatabasesInformation } from '../databases/dbs-info-resource.ts'
import { partitionInformation, partitionRequest, refusePartitionRoot } from '../databases/partition-resource.ts'
import { purgedInfos, purgeLimit, setPurgeLimit } from '../databases/purged-infos-resource.ts'
import { expiry, setExpiry, setTombstones, tombstones } from '../databases/retention-resource.ts'
import { readSecurity, security, setSecurity } from '../databases/security-resource.ts'
import { externalRequest } from '../design-functions/external-resource.ts'
import { listRows } from '../design-functions/list-resource.ts'
import { rewriteRequest } from '../design-functions/rewrite-resource.ts'
import { showDocument } from '../design-functions/show-resource.ts'
import { refuseReading, UPDATE_METHODS, updateDocument } from '../design-functions/update-resource.ts'
import { bulkDocuments } from '../documents/bulk-docs-resource.ts'
import { bulkGet } from '../documents/bulk-get-resource.ts'
import { readDocument } from '../documents/document-reading.ts'
import { copyDocument, deleteDocument, postDocument, putDocument } from '../documents/document-writing.ts'
import { getLocalDocuments, postLocalDocuments, postLocalDocumentsQueries } from '../documents/local-docs-resource.ts'
import { missingRevisions, purge, revisionsDiff } from '../documents/revisions-resource.ts'
import {
  getAllDocuments,
  getDesignDocuments,
  postAllDocuments,
  postAllDocumentsQueries,
  postDesignDocuments,
  postDesignDocumentsQueries,
} from '../rows/all-docs-resource.ts'
import { cleanUpIndexes, compactIndex, indexInformation, requireCompactedDesign } from '../rows/index-resource.ts'
import { getView, postTemporaryView, postView } from '../rows/view-resource.ts'
import { explain, find } from '../selectors/find-resource.ts'
import {
  createIndex,
  deleteIndex,
  deleteIndexes,
  listIndexes,
  refuseIndexPath,
} from '../selectors/selector-index-resource.ts'
import type { Call } from './call.ts'
import type { PrimaryContext } from './context.ts'
import {
  ANY_METHOD,
  anyone,
  checked,
  databaseAdmin,
  everywhere,
  type Handler,
  member,
  type Operation,
  type Route,
  RouteTable,
  refuseLocalAttachment,
  refuseLocalRoot,
  route,
  serverAdmin,
  writer,
} from './route.ts'

const ATTACHMENT_METHODS = 'DELETE,GET,HEAD,PUT'
const DOCUMENT_METHODS = 'DELETE,GET,HEAD,POST,PUT,COPY'

/** Attachments are served by the node that compacts the database: it knows which are being sent. */
const sendsNoContents = (call: Call) => !call.hasQuery || CONTENTS.every((name) => call.query(name) === undefined)

const CONTENTS = ['attachments', 'atts_since', 'open_revs']

/** Sandbox processes are the primary's. */
const callsNoFunction = (call: Call) =>
  !call.hasQuery || (OWN_FILTERS.has(call.query('filter') ?? '') && sendsNoContents(call))

const OWN_FILTERS = new Set(['', '_design', '_doc_ids', '_selector'])

const document = {
  GET: everywhere(member(readDocument, 'database_reads'), sendsNoContents),
  PUT: writer(putDocument, 'database_writes'),
  POST: writer(uploadForm, 'database_writes'),
  DELETE: writer(deleteDocument, 'database_writes'),
  // Reads this one and writes another.
  COPY: writer(copyDocument, 'database_writes'),
}
const designDocument = {
  ...document,
  PUT: databaseAdmin(putDocument, 'database_writes'),
  POST: databaseAdmin(uploadForm, 'database_writes'),
  DELETE: databaseAdmin(deleteDocument, 'database_writes'),
}
const attachment = {
  GET: member(readAttachment, 'database_reads'),
  PUT: writer(putAttachment, 'database_writes'),
  DELETE: writer(deleteAttachment, 'database_writes'),
}
const always = (handler: Handler): Record<string, Operation> => {
  const refusal = member(handler)
  return { GET: refusal, PUT: refusal, POST: refusal, DELETE: refusal, COPY: refusal }
}

export const routes = new RouteTable([
  route('/', 'GET,HEAD', { GET: everywhere(anyone(serverInformation)) }),
  route('/favicon.ico', 'GET,HEAD', { GET: everywhere(anyone(favicon)) }),
  route('/_active_tasks', 'GET,HEAD', { GET: serverAdmin(activeTasks) }),
  route('/_all_dbs', 'GET,HEAD', { GET: anyone(allDatabases) }),
  route('/_config', 'GET,PUT,DELETE', {
    GET: serverAdmin(readSettings),
    PUT: serverAdmin(writeSetting),
    DELETE: serverAdmin(deleteSetting),
  }),
  route('/_db_updates', 'GET', { GET: serverAdmin(databaseUpdates) }),
  route('/_dbs_info', 'GET,HEAD,POST', {
    GET: serverAdmin(allDatabasesInformation),
    POST: serverAdmin(namedDatabasesInformation),
  }),
  route('/_log', 'GET,POST', { GET: serverAdmin(readLog), POST: serverAdmin(writeLog) }),
  route('/_membership', 'GET,HEAD', { GET: anyone(membership) }),
  route('/_node', ANY_METHOD, { [ANY_METHOD]: serverAdmin(nodeResource) }),
  route('/_oauth', ANY_METHOD, { [ANY_METHOD]: anyone(oauth) }),
  route('/_plugins', 'POST', { POST: serverAdmin(installPlugin) }),
  route('/_replicate', 'POST', { POST: checked(requireJsonType, serverAdmin(replicate)) }),
  route('/_restart', 'POST', { POST: checked(requireJsonType, serverAdmin(restart)) }),
  route('/_scheduler', 'GET,HEAD', { GET: serverAdmin(scheduler) }),
  route('/_session', 'GET,HEAD,POST,DELETE', {
    GET: everywhere(anyone(sessionInformation)),
    POST: anyone(login),
    DELETE: anyone(logout),
  }),
  route('/_stats', 'GET', { GET: anyone(statistics) }),
  route('/_up', 'GET,HEAD', { GET: anyone(up) }),
  route('/_utils', 'GET,HEAD', { GET: everywhere(anyone(utilities)) }),
  route('/_uuids', 'GET', { GET: anyone(uuids) }),

  route('/{db}', 'DELETE,GET,HEAD,POST,PUT', {
    GET: member(databaseInformation),
    PUT: serverAdmin(createDatabase),
    DELETE: checked(refuseRevision, serverAdmin(deleteDatabase)),
    POST: writer(postDocument, 'database_writes'),
  }),
  route('/{db}/_all_docs', 'GET,POST,HEAD', {
    GET: everywhere(member(getAllDocuments), sendsNoContents),
    POST: everywhere(member(postAllDocuments), sendsNoContents),
  }),
  route('/{db}/_all_docs/{name}', 'POST', { POST: everywhere(member(postAllDocumentsQueries), sendsNoContents) }),
  route('/{db}/_backup', 'GET', { GET: serverAdmin(readBackup) }),
  route('/{db}/_bulk_docs', 'POST', { POST: writer(bulkDocuments, 'database_writes', 'bulk_requests') }),
  route('/{db}/_bulk_get', 'POST', { POST: member(bulkGet, 'database_reads') }),
  route('/{db}/_changes', 'GET,HEAD,POST', {
    GET: everywhere(member(getChanges), callsNoFunction),
    POST: everywhere(member(postChanges), callsNoFunction),
  }),
  route('/{db}/_compact', 'POST', { POST: databaseAdmin(compact) }),
  route('/{db}/_compact/{name}', 'POST', { POST: checked(requireCompactedDesign, databaseAdmin(compactIndex)) }),
  route('/{db}/_design_docs', 'GET,POST,HEAD', { GET: member(getDesignDocuments), POST: member(postDesignDocuments) }),
  route('/{db}/_design_docs/{name}', 'POST', { POST: member(postDesignDocumentsQueries) }),
  route('/{db}/_ensure_full_commit', 'POST', { POST: member(ensureFullCommit) }),
  route('/{db}/_explain', 'POST', { POST: member(explain) }),
  route('/{db}/_find', 'POST', { POST: everywhere(member(find)) }),
  route('/{db}/_index', 'GET,POST', { GET: member(listIndexes), POST: databaseAdmin(createIndex) }),
  route('/{db}/_index/{name}', 'POST', { POST: databaseAdmin(deleteIndexes), [ANY_METHOD]: member(refuseIndexPath) }),
  route('/{db}/_index/{name}/{name}', 'DELETE', { DELETE: databaseAdmin(deleteIndex) }),
  route('/{db}/_local_docs', 'GET,POST,HEAD', { GET: member(getLocalDocuments), POST: member(postLocalDocuments) }),
  route('/{db}/_local_docs/{name}', 'POST', { POST: member(postLocalDocumentsQueries) }),
  route('/{db}/_missing_revs', 'POST', { POST: everywhere(member(missingRevisions)) }),
  route('/{db}/_partition', 'GET', { [ANY_METHOD]: member(refusePartitionRoot) }),
  route('/{db}/_partition/{name}', 'GET', { GET: member(partitionInformation) }),
  // What follows the name says which methods there are.
  route('/{db}/_partition/{name}/{name}', ANY_METHOD, { [ANY_METHOD]: member(partitionRequest) }),
  route('/{db}/_purge', 'POST', { POST: databaseAdmin(purge) }),
  route('/{db}/_purged_infos', 'GET,HEAD', { GET: databaseAdmin(purgedInfos) }),
  route('/{db}/_purged_infos_limit', 'PUT,GET', { GET: member(purgeLimit), PUT: databaseAdmin(setPurgeLimit) }),
  route('/{db}/_restore', 'POST', { POST: serverAdmin(writeRestore) }),
  route('/{db}/_revs_diff', 'POST', { POST: everywhere(member(revisionsDiff)) }),
  route('/{db}/_tombstones', 'GET,PUT', { GET: databaseAdmin(tombstones), PUT: databaseAdmin(setTombstones) }),
  route('/{db}/_expiry', 'GET,PUT', { GET: member(expiry), PUT: databaseAdmin(setExpiry) }),
  route('/{db}/_revs_limit', 'PUT,GET', { GET: member(revisionLimit), PUT: databaseAdmin(setRevisionLimit) }),
  route('/{db}/_security', 'PUT,GET', {
    GET: everywhere(member(security)),
    PUT: checked(readSecurity, databaseAdmin(setSecurity)),
  }),
  route('/{db}/_shards', 'GET,HEAD', { GET: member(shards) }),
  route('/{db}/_shards/{name}', 'GET,HEAD', { GET: member(shardOfDocument) }),
  route('/{db}/_sync_shards', 'POST', { POST: databaseAdmin(syncShards) }),
  route('/{db}/_temp_view', 'POST', {
    POST: checked(requireJsonType, databaseAdmin(postTemporaryView, 'temporary_view_reads')),
  }),
  route('/{db}/_view_cleanup', 'POST', { POST: databaseAdmin(cleanUpIndexes) }),

  route('/{db}/{docid}', DOCUMENT_METHODS, document),
  route('/{db}/{docid}/{name}', ATTACHMENT_METHODS, attachment),
  route('/{db}/{docid}/{name}/{name}', ATTACHMENT_METHODS, attachment),
  route('/{db}/_design/{name}', DOCUMENT_METHODS, designDocument),
  route('/{db}/_design/{name}/{name}', ATTACHMENT_METHODS, {
    GET: member(ofDesign(readAttachment), 'database_reads'),
    PUT: databaseAdmin(ofDesign(putAttachment), 'database_writes'),
    DELETE: databaseAdmin(ofDesign(deleteAttachment), 'database_writes'),
  }),
  route('/{db}/_design/{name}/_compact', 'POST', {
    POST: checked(requireCompactedDesign, databaseAdmin(compactIndex)),
  }),
  route('/{db}/_design/{name}/_info', 'GET', { GET: member(indexInformation) }),
  route('/{db}/_design/{name}/_list', 'GET,POST,HEAD', {
    GET: member(listRows),
    POST: member(listRows),
    // For methods that browsers do not send for pages, as for GET.
    OPTIONS: member(listRows),
  }),
  route('/{db}/_design/{name}/_rewrite', ANY_METHOD, { [ANY_METHOD]: member(rewriteRequest) }),
  route('/{db}/_design/{name}/_show', ANY_METHOD, { [ANY_METHOD]: member(showDocument) }),
  route('/{db}/_design/{name}/_update', UPDATE_METHODS, {
    GET: member(refuseReading),
    // Which document is written, only the function knows.
    [ANY_METHOD]: writer(updateDocument, 'database_writes'),
  }),
  route('/{db}/_design/{name}/_view', 'GET,POST,HEAD', {
    GET: everywhere(member(getView, 'view_reads'), sendsNoContents),
    POST: everywhere(member(postView, 'view_reads'), sendsNoContents),
  }),
  route('/{db}/_local', DOCUMENT_METHODS, always(refuseLocalRoot)),
  route('/{db}/_local/{name}', DOCUMENT_METHODS, document),
  route('/{db}/_local/{name}/{name}', DOCUMENT_METHODS, always(refuseLocalAttachment)),
])

/**
 * The resource that settings have for these segments: below a database, a program of `[external]` that answers; at the
 * top, another server.
 */
export function configuredRoute(
  first: string,
  second: string | undefined,
  configuration: Configuration,
): Route | undefined {
  if (first.startsWith('_')) {
    const url = handlerArgument(configuration, 'httpd_global_handlers', first, PROXY)
    if (url !== undefined) return proxyRoute(url)
  }
  if (!second?.startsWith('_') || routes.hasDatabaseAction(second)) return undefined
  const program = handlerArgument(configuration, 'httpd_db_handlers', second, EXTERNAL)
  return program === undefined ? undefined : externalRoute(program)
}

const PROXY = 'handle_proxy_req'
const EXTERNAL = 'handle_external_req'

function proxyRoute(url: string): Route {
  return route('/{proxy}', ANY_METHOD, { [ANY_METHOD]: anyone((call) => forwardRequest(call, url)) })
}

/** Of an empty name the next segment is the name. */
function externalRoute(program: string): Route {
  const handler = member((call, context: PrimaryContext) => externalRequest(call, context, program))
  return route('/{db}/{external}', ANY_METHOD, { [ANY_METHOD]: handler })
}

/**
 * The third part of a value such as `{service_httpd_proxy, handle_proxy_req, <<"http://127.0.0.1:8000">>}`, empty where
 * there is none; undefined for another function. It must be as this start was given it: a client that changes settings
 * over HTTP must not choose where requests are sent.
 */
function handlerArgument(
  configuration: Configuration,
  section: string,
  key: string,
  handler: string,
): string | undefined {
  const value = configuration.get(section, key)
  if (!value?.includes(handler)) return undefined
  const [, name, argument] = parseTerm(value)?.items ?? []
  if (name?.text !== handler || value !== configuration.startupSection(section).get(key)) return undefined
  return argument?.text ?? ''
}
