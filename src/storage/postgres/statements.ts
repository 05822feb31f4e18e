/**
 * The tables and the statements. A row belongs to a space; a store is a name, the space that holds its rows now, and its
 * version. A commit is one statement: it raises the version where it is the expected one, and only then changes rows.
 * Arrays of keys and values are cut by `unnest`. Pages come packed into one value. Each statement is written so that there is
 * only one way to run it: a session plans it once, perhaps while the tables are still empty.
 */

/** A statement that is prepared once in each session. */
export interface Statement {
  readonly name: string
  readonly text: string
}

/** Ids of the last commits of a store, eight bytes each: a commit whose connection was lost is looked up in them. */
export const COMMIT_ID_BYTES = 8
export const RECENT_COMMITS = 32

export const TABLES = [
  'CREATE SEQUENCE IF NOT EXISTS ids',
  `CREATE TABLE IF NOT EXISTS stores (
    id bigint PRIMARY KEY,
    catalog text NOT NULL,
    name bytea NOT NULL,
    space bigint NOT NULL,
    version bigint NOT NULL,
    bytes bigint NOT NULL,
    recent bytea NOT NULL,
    UNIQUE (catalog, name)
  )`,
  `CREATE TABLE IF NOT EXISTS rows (
    space bigint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (space, key)
  )`,
  // Servers that use the tables, and when they last said so.
  `CREATE TABLE IF NOT EXISTS servers (
    id bytea PRIMARY KEY,
    seen timestamptz NOT NULL
  )`,
  // Work that one server does at a time. A server holds a lease while its heartbeats are recent.
  `CREATE TABLE IF NOT EXISTS leases (
    name text PRIMARY KEY,
    holder bytea NOT NULL,
    fence bigint NOT NULL
  )`,
  // What servers report of themselves when another one asks.
  `CREATE TABLE IF NOT EXISTS reports (
    server bytea PRIMARY KEY,
    made timestamptz NOT NULL,
    report text NOT NULL
  )`,
  // One row, which identifies these tables.
  `CREATE TABLE IF NOT EXISTS identity (
    one bigint PRIMARY KEY,
    uuid text NOT NULL
  )`,
  // Spaces that no store has: dropped ones, and those that a replacement is being written to.
  `CREATE TABLE IF NOT EXISTS garbage (
    space bigint PRIMARY KEY,
    touched timestamptz NOT NULL,
    abandoned boolean NOT NULL
  )`,
]

function statement(name: string, text: string): Statement {
  return { name, text: text.replace(/\s+/g, ' ').trim() }
}

/** The version where it is the expected one, and what the statements of the commit need to know. */
const BUMP = `UPDATE stores SET version = version + $3, bytes = bytes + $4,
    recent = substring($5::bytea || recent from 1 for ${COMMIT_ID_BYTES * RECENT_COMMITS})
  WHERE id = $1 AND ($2::bigint IS NULL OR version = $2) RETURNING version, space`

export const STATEMENTS = {
  list: statement('list', 'SELECT id, name, version FROM stores WHERE catalog = $1 ORDER BY name'),

  find: statement('find', 'SELECT id, space, version FROM stores WHERE catalog = $1 AND name = $2'),

  /** $1 catalog, $2 name, $3 bytes, $4 and $5 its first rows. */
  create: statement(
    'create',
    `WITH made AS (
       INSERT INTO stores (id, catalog, name, space, version, bytes, recent)
       SELECT nextval('ids'), $1, $2, nextval('ids'), 0, $3::bigint, ''::bytea
       ON CONFLICT (catalog, name) DO NOTHING RETURNING id, space
     ),
     filled AS (
       INSERT INTO rows (space, key, value)
       SELECT made.space, put.key, put.value FROM made, unnest($4::bytea[], $5::bytea[]) AS put (key, value)
     )
     SELECT id, space FROM made`,
  ),

  drop: statement(
    'drop',
    `WITH gone AS (DELETE FROM stores WHERE id = $1 RETURNING space)
     INSERT INTO garbage (space, touched, abandoned) SELECT space, now(), true FROM gone RETURNING space`,
  ),

  /** $1 store, $2 expected version or null, $3 raised by, $4 bytes, $5 commit id, $6 deleted keys, $7 and $8 rows. */
  commit: statement(
    'commit',
    `WITH bumped AS (${BUMP}),
     removed AS (
       DELETE FROM rows WHERE space = (SELECT space FROM bumped) AND key = ANY($6::bytea[])
     ),
     written AS (
       INSERT INTO rows (space, key, value)
       SELECT bumped.space, put.key, put.value FROM bumped, unnest($7::bytea[], $8::bytea[]) AS put (key, value)
       ON CONFLICT (space, key) DO UPDATE SET value = excluded.value
     )
     SELECT version FROM bumped`,
  ),

  /** The steps of a commit, within a transaction: for clears, and where one statement must not do it all. */
  bump: statement('bump', BUMP),
  clear: statement('clear', 'DELETE FROM rows WHERE space = $1 AND key >= $2 AND key < $3'),
  remove: statement('remove', 'DELETE FROM rows WHERE space = $1 AND key = ANY($2::bytea[])'),
  put: statement(
    'put',
    `INSERT INTO rows (space, key, value)
     SELECT $1::bigint, put.key, put.value FROM unnest($2::bytea[], $3::bytea[]) AS put (key, value)
     ON CONFLICT (space, key) DO UPDATE SET value = excluded.value`,
  ),

  /** Keeps everybody else from committing until the transaction ends. Those who ask wait for each other. */
  lock: statement('lock', 'SELECT id FROM stores WHERE id = $1 FOR UPDATE'),
  /** Makes sure that a commit that expects this version cannot be applied any more. */
  fence: statement(
    'fence',
    `UPDATE stores SET version = version + 1,
       recent = substring($3::bytea || recent from 1 for ${COMMIT_ID_BYTES * RECENT_COMMITS})
     WHERE id = $1 AND version = $2 RETURNING version`,
  ),
  state: statement('state', 'SELECT version, space, recent FROM stores WHERE id = $1'),
  versions: statement('versions', 'SELECT id, version FROM stores WHERE id = ANY($1::bigint[])'),
  sizes: statement('sizes', 'SELECT bytes FROM stores WHERE id = $1'),
  addBytes: statement('add_bytes', 'UPDATE stores SET bytes = bytes + $2 WHERE id = $1'),

  /** $1 spaces and $2 keys, one for each; $3 stores; $4 the bytes after which values are left out. */
  read: statement(
    'read',
    `SELECT found.places, found.sizes, found.bytes, known.states FROM
       (SELECT string_agg(place::text, ',') AS places, string_agg(length(value)::text, ',') AS sizes,
          string_agg(CASE WHEN before < $4::bigint THEN value END, ''::bytea) AS bytes
        FROM (
          SELECT asked.place, hit.value,
            sum(length(hit.value)) OVER (ROWS UNBOUNDED PRECEDING) - length(hit.value) AS before
          FROM unnest($1::bigint[], $2::bytea[]) WITH ORDINALITY AS asked (space, key, place)
          CROSS JOIN LATERAL (
            SELECT value FROM rows WHERE rows.space = asked.space AND rows.key = asked.key LIMIT 1
          ) AS hit
        ) AS matched) AS found,
       (SELECT string_agg(id::text || ',' || version::text || ',' || space::text, ',') AS states
        FROM stores WHERE id = ANY($3::bigint[])) AS known`,
  ),

  pageAscending: page('page_ascending', 'value', 'ASC'),
  pageDescending: page('page_descending', 'value', 'DESC'),
  keysAscending: page('keys_ascending', keyValue(), 'ASC'),
  keysDescending: page('keys_descending', keyValue(), 'DESC'),

  count: statement('count', 'SELECT count(*) AS rows FROM rows WHERE space = $1 AND key >= $2 AND key < $3'),

  /** How many of the keys $2 the store $1 has now. */
  stored: statement(
    'stored',
    `SELECT count(*) AS rows FROM stores
     CROSS JOIN unnest($2::bytea[]) AS asked (key)
     CROSS JOIN LATERAL (
       SELECT 1 FROM rows WHERE rows.space = stores.space AND rows.key = asked.key LIMIT 1
     ) AS hit
     WHERE stores.id = $1`,
  ),

  /** A space for a replacement. */
  beginSpace: statement(
    'begin_space',
    `INSERT INTO garbage (space, touched, abandoned) VALUES (nextval('ids'), now(), false) RETURNING space`,
  ),
  fillSpace: statement(
    'fill_space',
    `WITH alive AS (UPDATE garbage SET touched = now() WHERE space = $1 AND NOT abandoned RETURNING space),
     written AS (
       INSERT INTO rows (space, key, value)
       SELECT alive.space, put.key, put.value FROM alive, unnest($2::bytea[], $3::bytea[]) AS put (key, value)
       ON CONFLICT (space, key) DO UPDATE SET value = excluded.value
     )
     SELECT space FROM alive`,
  ),
  /**
   * $1 store, $2 its space before, $3 the one that takes its place, $4 bytes, $5 commit id. Where $2 is not its space any more
   * nothing changes: $3 can take the place of another one, and is removed where it does not.
   */
  takeSpace: statement(
    'take_space',
    `WITH alive AS (SELECT space FROM garbage WHERE space = $3 AND NOT abandoned FOR UPDATE),
     moved AS (
       UPDATE stores SET space = $3, version = version + 1, bytes = $4,
         recent = substring($5::bytea || recent from 1 for ${COMMIT_ID_BYTES * RECENT_COMMITS})
       WHERE id = $1 AND space = $2 AND EXISTS (SELECT 1 FROM alive) RETURNING version
     ),
     finished AS (DELETE FROM garbage WHERE space = $3 AND EXISTS (SELECT 1 FROM moved)),
     left_over AS (INSERT INTO garbage (space, touched, abandoned) SELECT $2, now(), true FROM moved)
     SELECT version FROM moved`,
  ),
  abandonSpace: statement('abandon_space', 'UPDATE garbage SET abandoned = true WHERE space = $1'),

  /** Garbage: dropped spaces, and replacements without progress for this many seconds. */
  findGarbage: statement(
    'find_garbage',
    `UPDATE garbage SET abandoned = true
     WHERE abandoned OR touched < now() - ($1::bigint || ' seconds')::interval RETURNING space`,
  ),
  sweep: statement(
    'sweep',
    `DELETE FROM rows WHERE space = $1
       AND key = ANY(ARRAY(SELECT key FROM rows WHERE space = $1 ORDER BY key LIMIT $2)) RETURNING 1`,
  ),
  forgetGarbage: statement('forget_garbage', 'DELETE FROM garbage WHERE space = $1 AND abandoned'),

  /** $1 this server; returns the time in seconds, and whether another server had a heartbeat within $2 seconds. */
  seen: statement(
    'seen',
    `WITH own AS (
       INSERT INTO servers (id, seen) VALUES ($1, now()) ON CONFLICT (id) DO UPDATE SET seen = now() RETURNING seen
     ),
     old AS (DELETE FROM servers WHERE seen < now() - ($2::bigint || ' seconds')::interval AND id <> $1),
     outdated AS (DELETE FROM reports WHERE made < now() - ($2::bigint || ' seconds')::interval)
     SELECT floor(extract(epoch FROM own.seen))::bigint,
       EXISTS (SELECT 1 FROM servers WHERE id <> $1 AND seen >= now() - ($2::bigint || ' seconds')::interval)
     FROM own`,
  ),
  /** $1 this server, $2 the milliseconds without a heartbeat after which a server does not count. */
  others: statement(
    'others',
    "SELECT encode(id, 'hex') FROM servers WHERE id <> $1 AND seen > now() - ($2::bigint || ' milliseconds')::interval",
  ),
  beat: statement(
    'beat',
    'INSERT INTO servers (id, seen) VALUES ($1, now()) ON CONFLICT (id) DO UPDATE SET seen = now()',
  ),

  /** $1 lease, $2 this server, $3 the milliseconds without a heartbeat after which a server has lost its leases. */
  takeLease: statement(
    'take_lease',
    `INSERT INTO leases (name, holder, fence) SELECT $1::text, $2::bytea, nextval('ids')
     ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, fence = excluded.fence
     WHERE leases.holder = excluded.holder OR NOT EXISTS (
       SELECT 1 FROM servers
       WHERE servers.id = leases.holder AND servers.seen > now() - ($3::bigint || ' milliseconds')::interval
     )
     RETURNING fence`,
  ),
  /** $1 lease, $2 the milliseconds as above; a row if a server holds it. */
  findLease: statement(
    'find_lease',
    `SELECT fence FROM leases JOIN servers ON servers.id = leases.holder
     WHERE leases.name = $1 AND servers.seen > now() - ($2::bigint || ' milliseconds')::interval`,
  ),
  heldLeases: statement('held_leases', 'SELECT fence FROM leases WHERE holder = $1'),
  releaseLease: statement('release_lease', 'DELETE FROM leases WHERE name = $1 AND fence = $2'),
  /** The lock keeps other servers from taking the lease until the transaction ends. */
  checkLease: statement('check_lease', 'SELECT fence FROM leases WHERE name = $1 AND fence = $2 FOR SHARE'),

  /** $1 this server, $2 its report. */
  report: statement(
    'report',
    `INSERT INTO reports (server, made, report) VALUES ($1, now(), $2)
     ON CONFLICT (server) DO UPDATE SET made = excluded.made, report = excluded.report`,
  ),
  /** $1 this server, $2 the milliseconds after which a report does not count: those of the others. */
  reports: statement(
    'reports',
    `SELECT report FROM reports WHERE server <> $1 AND made > now() - ($2::bigint || ' milliseconds')::interval
     ORDER BY server`,
  ),
  forgetReport: statement('forget_report', 'DELETE FROM reports WHERE server = $1'),

  unseen: statement('unseen', 'DELETE FROM servers WHERE id = $1'),
  number: statement('number', "SELECT floor(extract(epoch FROM now()))::bigint, nextval('ids')"),

  /** The size of the rows of a space, a portion at a time. */
  measure: statement(
    'measure',
    `SELECT count(*) AS rows, sum(length(key) + length(value)) AS bytes, max(encode(key, 'hex') COLLATE "C") AS last
     FROM (SELECT key, value FROM rows WHERE space = $1 AND key > $2 ORDER BY key LIMIT $3) AS portion`,
  ),
} as const

/** For a page without values: the value of a truncated key holds the whole key. */
function keyValue(): string {
  return `CASE WHEN length(key) = 2000 THEN value ELSE ''::bytea END`
}

/** $1 space, $2 from (inclusive), $3 to (exclusive), $4 rows, $5 the bytes after which no row begins. */
function page(name: string, value: string, direction: 'ASC' | 'DESC'): Statement {
  return statement(
    name,
    `SELECT string_agg(length(key)::text, ',') AS keys, string_agg(length(value)::text, ',') AS sizes,
       string_agg(key || value, ''::bytea) AS bytes
     FROM (
       SELECT key, value,
         sum(length(key) + length(value)) OVER (ROWS UNBOUNDED PRECEDING) - length(key) - length(value) AS before
       FROM (
         SELECT key, ${value} AS value FROM rows WHERE space = $1 AND key >= $2 AND key < $3
         ORDER BY key ${direction} LIMIT $4
       ) AS portion
     ) AS measured
     WHERE before < $5::bigint`,
  )
}
