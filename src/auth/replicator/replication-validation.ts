/**
 * Validates documents of the replicator database. The rules are those of `_design/_replicator`, in their order; the
 * first violation is reported. They run here, so that changing that document cannot turn them off.
 */
import type { UserContext } from '../../database/user-context.ts'
import type { RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { forbidden, isServerAdmin } from '../rights/rights.ts'

export type ReplicationMembers = Readonly<Record<string, unknown>>

export interface ReplicationChange {
  readonly deleted: boolean
  readonly after: ReplicationMembers
  /** Undefined where the document is new. */
  readonly before: ReplicationMembers | undefined
  readonly user: UserContext
  /** Whether the user administers the server or the replicator database. */
  readonly isAdmin: boolean
}

/** The role of the replicator, which writes the state of replications. */
const REPLICATOR_ROLE = '_replicator'

export function isReplicator({ roles }: UserContext): boolean {
  return roles.includes(REPLICATOR_ROLE)
}

/** The first rule that a change breaks; undefined when it may be made. */
export function replicationRefusal(change: ReplicationChange): RequestError | undefined {
  if (isReplicator(change.user)) return undefined
  const reason = change.deleted ? deletionProblem(change) : problemOf(change)
  return reason === undefined ? undefined : forbidden(reason)
}

function deletionProblem({ before, user, isAdmin }: ReplicationChange): string | undefined {
  if (isAdmin || !before) return undefined
  const isOwn = isObject(before.user_ctx) && user.name !== null && before.user_ctx.name === user.name
  return isOwn ? undefined : 'Replication documents can only be deleted by admins or by the users who created them.'
}

function problemOf({ after, before, user }: ReplicationChange): string | undefined {
  if (before?._replication_state === 'triggered') {
    return 'Only the replicator can edit replication documents that are in the triggered state.'
  }
  return (
    endpointProblem('source', after.source) ??
    endpointProblem('target', after.target) ??
    optionProblem(after) ??
    userProblem(after.user_ctx, user)
  )
}

function endpointProblem(name: string, endpoint: unknown): string | undefined {
  if (typeof endpoint === 'string') return undefined
  if (!isObject(endpoint)) return `The \`${name}' property must exist and be either a string or an object.`
  if (!isText(endpoint.url)) {
    return `The url property must exist in the \`${name}' field and must be a non-empty string.`
  }
  for (const part of ['auth', 'headers']) {
    if (endpoint[part] !== undefined && !isObject(endpoint[part])) {
      return `\`${name}.${part}' must be a non-null object.`
    }
  }
  return undefined
}

function optionProblem(after: ReplicationMembers): string | undefined {
  for (const name of ['create_target', 'continuous']) {
    if (after[name] !== undefined && typeof after[name] !== 'boolean') return `The \`${name}' field must be a boolean.`
  }
  const { doc_ids, filter, query_params } = after
  if (doc_ids !== undefined && !Array.isArray(doc_ids)) return "The `doc_ids' field must be an array of strings."
  if (filter !== undefined && !isText(filter)) return "The `filter' field must be a non-empty string."
  if (query_params !== undefined && !isObject(query_params)) return "The `query_params' field must be an object."
  return undefined
}

/**
 * The user of the replication. Only server administrators may choose it: a database administrator could otherwise gain
 * rights.
 */
function userProblem(context: unknown, user: UserContext): string | undefined {
  if (context === undefined) {
    if (isServerAdmin(user)) return undefined
    return "The `user_ctx' property is missing (it is optional for admins only)."
  }
  if (!isObject(context)) return "The `user_ctx' property must be a non-null object."
  const { name = null, roles = [] } = context
  if (name !== null && !isText(name)) return "The `user_ctx.name' property must be a non-empty string or null."
  if (!Array.isArray(roles)) return "The `user_ctx.roles' property must be an array of strings."
  if (isServerAdmin(user)) return undefined
  if (name !== user.name) return "The given `user_ctx.name' is not valid"
  return roles.map((role) => roleProblem(role, user)).find((problem) => problem !== undefined)
}

function roleProblem(role: unknown, user: UserContext): string | undefined {
  if (!isText(role)) return 'Roles must be non-empty strings.'
  return user.roles.includes(role) ? undefined : `Invalid role (\`${role}') in the \`user_ctx'`
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

export const REPLICATOR_DESIGN_ID = '_design/_replicator'

export const REPLICATOR_VALIDATION = `function (newDoc, oldDoc, userCtx) {
  function refuse(reason) {
    throw { forbidden: reason };
  }
  function has(role) {
    return userCtx.roles.indexOf(role) !== -1;
  }
  function isObject(value) {
    return typeof value === 'object' && value !== null;
  }
  function isText(value) {
    return typeof value === 'string' && value !== '';
  }
  function isGiven(name) {
    return newDoc[name] !== undefined;
  }
  function checkEndpoint(name) {
    var endpoint = newDoc[name];
    if (typeof endpoint === 'string') return;
    if (!isObject(endpoint)) refuse('The \`' + name + "' property must exist and be either a string or an object.");
    if (!isText(endpoint.url)) {
      refuse('The url property must exist in the \`' + name + "' field and must be a non-empty string.");
    }
    ['auth', 'headers'].forEach(function (part) {
      if (endpoint[part] !== undefined && !isObject(endpoint[part])) {
        refuse('\`' + name + '.' + part + "' must be a non-null object.");
      }
    });
  }
  function checkUserContext() {
    var context = newDoc.user_ctx;
    if (!isObject(context)) refuse("The \`user_ctx' property must be a non-null object.");
    if (context.name !== undefined && context.name !== null && !isText(context.name)) {
      refuse("The \`user_ctx.name' property must be a non-empty string or null.");
    }
    if (context.roles !== undefined && !Array.isArray(context.roles)) {
      refuse("The \`user_ctx.roles' property must be an array of strings.");
    }
    if (has('_admin')) return;
    if ((context.name === undefined ? null : context.name) !== userCtx.name) {
      refuse("The given \`user_ctx.name' is not valid");
    }
    (context.roles || []).forEach(function (role) {
      if (!isText(role)) refuse('Roles must be non-empty strings.');
      if (!has(role)) refuse('Invalid role (\`' + role + "') in the \`user_ctx'");
    });
  }

  var old = oldDoc && oldDoc._deleted !== true ? oldDoc : null;
  if (newDoc._deleted === true) {
    if (has('_admin') || has('_replicator')) return;
    if (old && !(isObject(old.user_ctx) && userCtx.name !== null && old.user_ctx.name === userCtx.name)) {
      refuse('Replication documents can only be deleted by admins or by the users who created them.');
    }
    return;
  }
  if (has('_replicator')) return;
  if (old && old._replication_state === 'triggered') {
    refuse('Only the replicator can edit replication documents that are in the triggered state.');
  }
  checkEndpoint('source');
  checkEndpoint('target');
  ['create_target', 'continuous'].forEach(function (name) {
    if (isGiven(name) && typeof newDoc[name] !== 'boolean') refuse('The \`' + name + "' field must be a boolean.");
  });
  if (isGiven('doc_ids') && !Array.isArray(newDoc.doc_ids)) refuse("The \`doc_ids' field must be an array of strings.");
  if (isGiven('filter') && !isText(newDoc.filter)) refuse("The \`filter' field must be a non-empty string.");
  if (isGiven('query_params') && !isObject(newDoc.query_params)) refuse("The \`query_params' field must be an object.");
  if (isGiven('user_ctx')) checkUserContext();
  else if (!has('_admin')) refuse("The \`user_ctx' property is missing (it is optional for admins only).");
}`
