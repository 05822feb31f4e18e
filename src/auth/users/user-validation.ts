/**
 * Validates user documents. The rules are those of `_design/_auth`, in their order; the first violation is reported.
 * They run here, so that changing that document cannot turn them off.
 */
import type { UserContext } from '../../database/user-context.ts'
import type { RequestError } from '../../document/request-error.ts'
import { forbidden, isServerAdmin } from '../rights/rights.ts'
import { nameOfUserId, type UserMembers } from './user-documents.ts'

export interface UserChange {
  readonly id: string
  readonly deleted: boolean
  readonly after: UserMembers
  /** Undefined where the document is new. */
  readonly before: UserMembers | undefined
  readonly user: UserContext
  /** Whether the user administers the server or the users database. */
  readonly isAdmin: boolean
}

/** The first rule that a change breaks; undefined when it may be made. */
export function refusalOf(change: UserChange): RequestError | undefined {
  const reason = change.deleted ? deletionProblem(change) : problemOf(change)
  return reason === undefined ? undefined : forbidden(reason)
}

/** An administrator of the database alone may not delete other users. */
function deletionProblem({ before, user }: UserChange): string | undefined {
  const isOwn = user.name !== null && before?.name === user.name
  return isServerAdmin(user) || isOwn ? undefined : 'Only admins may delete other user docs.'
}

function problemOf(change: UserChange): string | undefined {
  return documentProblem(change) ?? passwordProblem(change) ?? changeProblem(change) ?? nameProblem(change)
}

function documentProblem({ id, after, before }: UserChange): string | undefined {
  const { type, name, roles } = after
  if (type !== 'user' || (before && before.type !== 'user')) return 'doc.type must be user'
  if (!name) return 'doc.name is required'
  if (!roles) return 'doc.roles must exist'
  if (!Array.isArray(roles)) return 'doc.roles must be an array'
  if (!roles.every((role) => typeof role === 'string')) return 'doc.roles can only contain strings'
  if (nameOfUserId(id) !== name) return 'Doc ID must be of the form org.service.user:name'
  if (before && before.name !== name) return 'Usernames can not be changed.'
  return undefined
}

function passwordProblem({ after }: UserChange): string | undefined {
  const { password_sha, salt, password_scheme, iterations, derived_key } = after
  if (password_sha && !salt) return 'Users with password_sha must have a salt.'
  if (password_scheme !== 'pbkdf2') return undefined
  if (typeof iterations !== 'number') return 'iterations must be a number.'
  if (typeof derived_key !== 'string') return 'derived_key must be a string.'
  return undefined
}

function changeProblem({ after, before, user, isAdmin }: UserChange): string | undefined {
  if (isAdmin) return undefined
  if (!before) return rolesOf(after).length > 0 ? 'Only _admin may set roles' : undefined
  if (user.name === null || user.name !== after.name) return 'You may only update your own user document.'
  return sameRoles(rolesOf(before), rolesOf(after)) ? undefined : 'Only _admin may edit roles'
}

function nameProblem({ after }: UserChange): string | undefined {
  const name = String(after.name)
  if (rolesOf(after).some((role) => String(role).startsWith('_'))) {
    return 'No system roles (starting with underscore) in users db.'
  }
  if (name.startsWith('_')) return 'Username may not start with underscore.'
  if (name.includes(':')) return 'Character `:` is not allowed in usernames.'
  return undefined
}

function rolesOf({ roles }: UserMembers): readonly unknown[] {
  return Array.isArray(roles) ? roles : []
}

function sameRoles(some: readonly unknown[], others: readonly unknown[]): boolean {
  return some.length === others.length && JSON.stringify(some.toSorted()) === JSON.stringify(others.toSorted())
}

export const USERS_DESIGN_ID = '_design/_auth'

export const USERS_VALIDATION = `function (newDoc, oldDoc, userCtx, secObj) {
  function refuse(reason) {
    throw { forbidden: reason };
  }
  function isIn(list, value) {
    return Array.isArray(list) && list.indexOf(value) !== -1;
  }
  function isServerAdmin() {
    return isIn(userCtx.roles, '_admin');
  }
  function isAdmin() {
    var admins = (secObj && secObj.admins) || {};
    if (isServerAdmin()) return true;
    if (userCtx.name !== null && isIn(admins.names, userCtx.name)) return true;
    for (var i = 0; i < userCtx.roles.length; i++) {
      if (isIn(admins.roles, userCtx.roles[i])) return true;
    }
    return false;
  }

  if (newDoc._deleted === true) {
    if (isServerAdmin() || (oldDoc && userCtx.name !== null && userCtx.name === oldDoc.name)) return;
    refuse('Only admins may delete other user docs.');
  }
  var isUpdate = oldDoc && oldDoc._deleted !== true;

  if ((isUpdate && oldDoc.type !== 'user') || newDoc.type !== 'user') refuse('doc.type must be user');
  if (!newDoc.name) refuse('doc.name is required');
  if (!newDoc.roles) refuse('doc.roles must exist');
  if (!Array.isArray(newDoc.roles)) refuse('doc.roles must be an array');
  for (var i = 0; i < newDoc.roles.length; i++) {
    if (typeof newDoc.roles[i] !== 'string') refuse('doc.roles can only contain strings');
  }
  if (newDoc._id !== 'org.service.user:' + newDoc.name && newDoc._id !== 'org.couchdb.user:' + newDoc.name) {
    refuse('Doc ID must be of the form org.service.user:name');
  }
  if (isUpdate && oldDoc.name !== newDoc.name) refuse('Usernames can not be changed.');
  if (newDoc.password_sha && !newDoc.salt) refuse('Users with password_sha must have a salt.');
  if (newDoc.password_scheme === 'pbkdf2') {
    if (typeof newDoc.iterations !== 'number') refuse('iterations must be a number.');
    if (typeof newDoc.derived_key !== 'string') refuse('derived_key must be a string.');
  }

  if (!isAdmin()) {
    if (isUpdate) {
      if (userCtx.name !== newDoc.name) refuse('You may only update your own user document.');
      var oldRoles = Array.isArray(oldDoc.roles) ? oldDoc.roles.slice().sort() : [];
      var newRoles = newDoc.roles.slice().sort();
      if (JSON.stringify(oldRoles) !== JSON.stringify(newRoles)) refuse('Only _admin may edit roles');
    } else if (newDoc.roles.length > 0) {
      refuse('Only _admin may set roles');
    }
  }
  for (var j = 0; j < newDoc.roles.length; j++) {
    if (newDoc.roles[j].charAt(0) === '_') refuse('No system roles (starting with underscore) in users db.');
  }
  if (newDoc.name.charAt(0) === '_') refuse('Username may not start with underscore.');
  if (newDoc.name.indexOf(':') !== -1) refuse('Character \`:\` is not allowed in usernames.');
}`
