/**
 * The design document of the users database. Its function says to clients, and to other servers that the database is
 * replicated to, what `user-validation.ts` enforces here.
 */

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
