/** Every resource of the server, in one table: path, the methods that it has, and who handles them. */
import { getAllDocuments, postAllDocuments } from './all-docs-resource.ts'
import { deleteAttachment, ofDesign, putAttachment, readAttachment } from './attachment-resource.ts'
import { bulkDocuments } from './bulk-docs-resource.ts'
import { bulkGet } from './bulk-get-resource.ts'
import {
  compact,
  createDatabase,
  databaseInformation,
  deleteDatabase,
  ensureFullCommit,
  revisionLimit,
  setRevisionLimit,
} from './database-resource.ts'
import { refuseLocalAttachment, refuseLocalRoot } from './document-path.ts'
import { readDocument } from './document-reading.ts'
import { copyDocument, deleteDocument, postDocument, putDocument } from './document-writing.ts'
import { uploadForm } from './form-upload.ts'
import { missingRevisions, purge, revisionsDiff } from './revisions-resource.ts'
import { type Handler, RouteTable, route } from './route.ts'
import { security, setSecurity } from './security-resource.ts'
import { allDatabases, serverInformation, uuids } from './server-resource.ts'

const ATTACHMENT_METHODS = 'DELETE,GET,HEAD,PUT'
const DOCUMENT_METHODS = 'DELETE,GET,HEAD,POST,PUT,COPY'
const document = {
  GET: readDocument,
  PUT: putDocument,
  POST: uploadForm,
  DELETE: deleteDocument,
  COPY: copyDocument,
}
const attachment = { GET: readAttachment, PUT: putAttachment, DELETE: deleteAttachment }
const always = (handler: Handler) => ({ GET: handler, PUT: handler, POST: handler, DELETE: handler, COPY: handler })

export const routes = new RouteTable([
  route('/', 'GET,HEAD', { GET: serverInformation }),
  route('/_all_dbs', 'GET,HEAD', { GET: allDatabases }),
  route('/_uuids', 'GET', { GET: uuids }),

  route('/{db}', 'DELETE,GET,HEAD,POST,PUT', {
    GET: databaseInformation,
    PUT: createDatabase,
    DELETE: deleteDatabase,
    POST: postDocument,
  }),
  route('/{db}/_all_docs', 'GET,POST,HEAD', { GET: getAllDocuments, POST: postAllDocuments }),
  route('/{db}/_bulk_docs', 'POST', { POST: bulkDocuments }),
  route('/{db}/_bulk_get', 'POST', { POST: bulkGet }),
  route('/{db}/_compact', 'POST', { POST: compact }),
  route('/{db}/_ensure_full_commit', 'POST', { POST: ensureFullCommit }),
  route('/{db}/_missing_revs', 'POST', { POST: missingRevisions }),
  route('/{db}/_purge', 'POST', { POST: purge }),
  route('/{db}/_revs_diff', 'POST', { POST: revisionsDiff }),
  route('/{db}/_revs_limit', 'PUT,GET', { GET: revisionLimit, PUT: setRevisionLimit }),
  route('/{db}/_security', 'PUT,GET', { GET: security, PUT: setSecurity }),

  route('/{db}/{docid}', DOCUMENT_METHODS, document),
  route('/{db}/{docid}/{name}', ATTACHMENT_METHODS, attachment),
  route('/{db}/{docid}/{name}/{name}', ATTACHMENT_METHODS, attachment),
  route('/{db}/_design/{name}', DOCUMENT_METHODS, document),
  route('/{db}/_design/{name}/{name}', ATTACHMENT_METHODS, {
    GET: ofDesign(readAttachment),
    PUT: ofDesign(putAttachment),
    DELETE: ofDesign(deleteAttachment),
  }),
  route('/{db}/_local', DOCUMENT_METHODS, always(refuseLocalRoot)),
  route('/{db}/_local/{name}', DOCUMENT_METHODS, document),
  route('/{db}/_local/{name}/{name}', DOCUMENT_METHODS, always(refuseLocalAttachment)),
])
