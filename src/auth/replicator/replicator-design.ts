/**
 * The design document of the replicator database. Its function says to clients, and to other servers that the database
 * is replicated to, what `replication-validation.ts` enforces here.
 */

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
