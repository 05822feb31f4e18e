import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { refusalOf, USERS_DESIGN_ID, USERS_VALIDATION } from '../../../src/auth/users/user-validation.ts'
import type { Database } from '../../../src/database/database.ts'
import { listRange } from '../../../src/database/listing/all-documents.ts'
import { listKeys } from '../../../src/database/listing/listed-texts.ts'
import { stubText } from '../../../src/database/reading/document-text.ts'
import { openDocument, openRevision, openRevisions } from '../../../src/database/reading/open-document.ts'
import type { UserContext } from '../../../src/database/user-context.ts'
import { parseRevision } from '../../../src/document/ids.ts'
import type { RequestError } from '../../../src/document/request-error.ts'
import { textsOf } from '../../../src/views/query/row-query.ts'
import { local, put, remove, replicated, written } from '../../database/test-database.ts'
import { ADMIN, NOBODY, newUser, outcomeOf, startAuth, type TestAuth, user } from '../test-auth.ts'

const BOB = 'org.service.user:bob'
const USUAL_BOB = 'org.couchdb.user:bob'
const MISSING = 'not_found: missing'

interface Users extends TestAuth {
  /** The revision of bob. */
  readonly revision: string
  stored(id: string): Promise<Record<string, unknown>>
}

/** A users database with bob, who has a role, and dora, who administers it. */
async function startUsers(auth: Record<string, string> = {}): Promise<Users> {
  const test = await startAuth({ admins: { root: 'x' }, service_httpd_auth: auth })
  const users = await test.users(ADMIN)
  const [revision = ''] = await written(users.write([newUser('bob', 'pass', { roles: ['staff'], nick: 'Bobby' })]))
  await users.setSecurity(Buffer.from('{"admins":{"names":["dora"],"roles":["keeper"]}}'))
  const stored = async (id: string) => {
    using view = (await test.databases.get('_users')).view()
    return JSON.parse((await openDocument(view, id)).parts.body.toString())
  }
  return { ...test, revision, stored }
}

/** What a user reads, as text, or why not. */
async function reading(test: TestAuth, asked: UserContext, id: string): Promise<unknown> {
  using view = (await test.users(asked)).view()
  try {
    return JSON.parse(stubText(await openDocument(view, id)).toString())
  } catch (error) {
    return error instanceof Error ? error.message : error
  }
}

async function writing(test: TestAuth, asked: UserContext, ...edits: Parameters<Database['write']>[0]) {
  return outcomeOf((await test.users(asked)).write(edits))
}

describe('the users database', () => {
  it('is there from the start, with its design document', async () => {
    const test = await startUsers()
    expect(await test.databases.list()).toEqual(['_replicator', '_users'])
    expect(await test.stored(USERS_DESIGN_ID)).toEqual({
      language: 'javascript',
      validate_doc_update: USERS_VALIDATION,
    })
  })

  it('comes back, empty, when it is deleted, and not because it is asked for', async () => {
    const test = await startUsers()
    await test.databases.delete('_users')
    expect(await test.databases.list()).toEqual(['_replicator', '_users'])
    expect(await reading(test, ADMIN, BOB)).toBe(MISSING)
    expect(await reading(test, ADMIN, USERS_DESIGN_ID)).toMatchObject({ _id: USERS_DESIGN_ID })
  })

  it('has its function put right at the next start', async () => {
    const test = await startUsers()
    using view = (await test.databases.get('_users')).view()
    const { revision } = await openDocument(view, USERS_DESIGN_ID)
    const edited = { language: 'javascript', validate_doc_update: 'function () {}', views: {} }
    expect(await writing(test, ADMIN, put(USERS_DESIGN_ID, edited, { parent: revision }))).toBe('written')
    await test.auth.start()
    expect(await test.stored(USERS_DESIGN_ID)).toEqual({ ...edited, validate_doc_update: USERS_VALIDATION })
  })

  it('may become another one while the server runs', async () => {
    const test = await startUsers()
    await test.settings.set('service_httpd_auth', 'authentication_db', 'people')
    expect(await test.databases.list()).toEqual(['_replicator', '_users', 'people'])
    const people = await test.auth.access.open('people', NOBODY)
    expect(await outcomeOf(people.write([put('x', {})]))).toBe('forbidden: doc.type must be user')
    const former = await test.auth.access.open('_users', NOBODY)
    expect(former.reading).toBeUndefined()
  })
})

describe('a password', () => {
  it('is hashed on its way in, and all else stays as it was sent', async () => {
    const test = await startUsers()
    const { password, ...members } = {
      password: 'pass',
      ...{ '10': 1, name: 'ann', roles: [], type: 'user', '9': [1.5] },
    }
    const edit = put('org.service.user:ann', { password, ...members, password_sha: 'old', pbkdf2_prf: 'sha256' })
    expect(await writing(test, NOBODY, edit)).toBe('written')
    expect(await test.stored('org.service.user:ann')).toEqual({
      ...members,
      password_scheme: 'pbkdf2',
      pbkdf2_prf: 'sha256',
      iterations: 10,
      derived_key: expect.stringMatching(/^[0-9a-f]{64}$/),
      salt: expect.stringMatching(/^[0-9a-f]{32}$/),
    })
  })

  it('reaches the store by no way', async () => {
    const test = await startUsers()
    const members = { name: 'ann', roles: [], type: 'user', password: 'PLAIN' }
    const id = 'org.service.user:ann'
    const path = { start: 1, hashes: ['ab'.repeat(16)] }
    const users = await test.users(ADMIN)
    expect(await outcomeOf(users.write([replicated(id, path, members)]))).toBe('written')
    expect(JSON.stringify(await test.stored(id))).not.toContain('PLAIN')
    const parent = `1-${'ab'.repeat(16)}`
    await written(users.write([put(id, { password: 'PLAIN' }, { parent, deleted: true })]))
    using view = users.view()
    const [tombstone] = await openRevisions(view, id, 'all')
    expect(tombstone?.found && tombstone.document.parts.body.toString()).not.toContain('PLAIN')
    users.writeLater(put('org.service.user:tom', { ...members, name: 'tom' }))
    await users.flush()
    expect(JSON.stringify(await test.stored('org.service.user:tom'))).not.toContain('PLAIN')
  })

  it.each([[5], [true], [['x']], [{ a: 1 }], [false], [0]])('must be a string, and not %j', async (password) => {
    const test = await startUsers()
    const edit = put('org.service.user:ann', { name: 'ann', roles: [], type: 'user', password })
    expect(await writing(test, NOBODY, edit)).toBe('invalid: Password value must be a string.')
  })

  it('that is null says nothing', async () => {
    const test = await startUsers()
    const members = { name: 'ann', roles: [], type: 'user', password: null }
    expect(await writing(test, NOBODY, put('org.service.user:ann', members))).toBe('written')
    expect(await test.stored('org.service.user:ann')).toEqual(members)
  })

  it('cannot come as a hash that ties up the server, unless an administrator brings it', async () => {
    const test = await startUsers()
    const hash = { password_scheme: 'pbkdf2', derived_key: 'ab'.repeat(20), salt: 's', iterations: 500_000_000 }
    const members = { name: 'ann', roles: [], type: 'user', ...hash }
    const id = 'org.service.user:ann'
    expect(await writing(test, NOBODY, put(id, members))).toBe('forbidden: Iteration count is too high for this server')
    expect(await writing(test, ADMIN, put(id, members))).toBe('written')
  })
})

describe('writing', () => {
  const ann = { name: 'ann', roles: [], type: 'user' }
  const annId = 'org.service.user:ann'
  const bob = { name: 'bob', roles: ['staff'], type: 'user' }

  it.each([
    ['everybody', NOBODY],
    ['an administrator', ADMIN],
    ['the user-to-be', user('ann')],
  ])('lets %s register a user', async (_, asked) => {
    expect(await writing(await startUsers(), asked, newUser('ann', 'x'))).toBe('written')
  })

  it('does not reveal one user to another, even for a whole request', async () => {
    const test = await startUsers()
    const edits = [put(USUAL_BOB, bob), newUser('eve', 'x')]
    await expect(writing(test, user('eve'), ...edits)).resolves.toBe(MISSING)
    await expect(writing(test, user('eve'), put(BOB, bob, { parent: test.revision }))).resolves.toBe(MISSING)
    await expect(writing(test, user('eve'), newUser('nobody-yet', 'x'))).resolves.toBe(MISSING)
    expect(await reading(test, ADMIN, 'org.service.user:eve')).toBe(MISSING)
  })

  it('lets users change themselves, but not their roles', async () => {
    const test = await startUsers()
    const { parent } = { parent: test.revision }
    const asked = user('bob', 'staff')
    expect(await writing(test, asked, put(BOB, { ...bob, roles: ['staff', 'boss'] }, { parent }))).toBe(
      'forbidden: Only _admin may edit roles',
    )
    expect(await writing(test, asked, put(BOB, { ...bob, roles: [] }, { parent }))).toBe(
      'forbidden: Only _admin may edit roles',
    )
    expect(await writing(test, asked, put(BOB, { ...bob, nick: 'B' }, { parent }))).toBe('written')
  })

  it('keeps everybody else from changing them', async () => {
    const test = await startUsers()
    const parent = test.revision
    expect(await writing(test, NOBODY, put(BOB, bob, { parent }))).toBe(
      'forbidden: You may only update your own user document.',
    )
    expect(await writing(test, NOBODY, remove(BOB, parent))).toBe('forbidden: Only admins may delete other user docs.')
    expect(await writing(test, user('dora'), remove(BOB, parent))).toBe(
      'forbidden: Only admins may delete other user docs.',
    )
    expect(await writing(test, user('dora'), put(BOB, { ...bob, roles: ['x'] }, { parent }))).toBe('written')
  })

  it('lets users delete themselves, and server admins everybody', async () => {
    const test = await startUsers()
    expect(await writing(test, user('bob'), remove(BOB, test.revision))).toBe('written')
    expect(await writing(test, NOBODY, newUser('bob', 'again'))).toBe('written')
    const current = (await reading(test, ADMIN, BOB)) as { _rev: string }
    expect(await writing(test, ADMIN, remove(BOB, current._rev))).toBe('written')
  })

  it('is a conflict for who creates a user that is there', async () => {
    const test = await startUsers()
    for (const asked of [NOBODY, user('bob'), ADMIN]) {
      expect(await writing(test, asked, newUser('bob', 'mine'))).toBe('conflict: Document update conflict.')
    }
  })

  it.each([
    ['everybody', NOBODY],
    ['the user', user('bob')],
    ['administrators', ADMIN],
  ])('is a conflict for %s under the other spelling of an id', async (_, asked) => {
    const test = await startUsers()
    expect(await writing(test, asked, put(USUAL_BOB, { ...bob, roles: [] }))).toBe(
      'conflict: Document update conflict.',
    )
  })

  it('gives one of two spellings at a time', async () => {
    const test = await startUsers()
    const spellings = [put(annId, ann), put('org.couchdb.user:ann', ann)]
    const together = await (await test.users(NOBODY)).write(spellings)
    expect(together.map(({ outcome }) => outcome)).toEqual(['written', 'refused'])
    const tom = { ...ann, name: 'tom' }
    const apart = await Promise.all([
      writing(test, NOBODY, put('org.couchdb.user:tom', tom)),
      writing(test, NOBODY, put('org.service.user:tom', tom)),
    ])
    expect(apart.sort()).toEqual(['conflict: Document update conflict.', 'written'])
  })

  it('takes both spellings by replication, from an administrator alone', async () => {
    const test = await startUsers()
    const edit = replicated(USUAL_BOB, { start: 1, hashes: ['cd'.repeat(16)] }, { ...bob, roles: [] })
    expect(await writing(test, NOBODY, edit)).toBe('conflict: Document update conflict.')
    expect(await writing(test, user('bob'), edit)).toBe('conflict: Document update conflict.')
    expect(await writing(test, ADMIN, edit)).toBe('written')
  })

  it('does not let anybody add a branch to a user', async () => {
    const test = await startUsers()
    const mine = { name: 'bob', roles: [], type: 'user', password: 'mine' }
    const branch = replicated(BOB, { start: 9, hashes: ['ee'.repeat(16)] }, mine)
    const branching = put(BOB, mine, { branching: true })
    for (const edit of [branch, branching, put(BOB, mine, { parent: `1-${'ab'.repeat(16)}` })]) {
      expect(await writing(test, NOBODY, edit)).toBe('forbidden: You may only update your own user document.')
      expect(await writing(test, user('eve'), edit)).toBe(MISSING)
    }
  })

  it('does not let anybody restore roles of an older revision', async () => {
    const test = await startUsers()
    const hash = test.revision.slice(2)
    const after = { ...bob, roles: [] }
    expect(await writing(test, ADMIN, put(BOB, after, { parent: test.revision }))).toBe('written')
    const back = replicated(BOB, { start: 3, hashes: ['ff'.repeat(16), 'aa'.repeat(16), hash] }, bob)
    expect(await writing(test, user('bob'), back)).toBe('forbidden: Only _admin may edit roles')
    const branching = put(BOB, bob, { parent: test.revision, branching: true })
    expect(await writing(test, user('bob'), branching)).toBe('forbidden: Only _admin may edit roles')
  })

  it('decides each document of a request by itself', async () => {
    const test = await startUsers()
    const edits = [newUser('u1', 'x'), newUser('u2', 'x', { roles: ['r'] }), newUser('u3', 'x'), put('_design/d', {})]
    const outcomes = await (await test.users(NOBODY)).write(edits)
    expect(outcomes.map((each) => (each.outcome === 'written' ? 'written' : each.error.reason))).toEqual([
      'written',
      'Only _admin may set roles',
      'written',
      'You are not a db or server admin.',
    ])
  })

  it('leaves local documents to administrators', async () => {
    const test = await startUsers()
    const refused = 'unauthorized: You are not a db or server admin.'
    for (const asked of [user('eve'), NOBODY]) {
      expect(await writing(test, asked, local('_local/x', { a: 1 }))).toBe(refused)
    }
    expect(await writing(test, ADMIN, local('_local/x', { a: 1 }))).toBe('written')
  })
})

describe('reading', () => {
  it('shows users to themselves and to administrators', async () => {
    const test = await startUsers()
    const whole = { _id: BOB, _rev: test.revision, name: 'bob', nick: 'Bobby', derived_key: expect.any(String) }
    for (const asked of [ADMIN, user('dora'), user('x', 'keeper'), user('bob')]) {
      expect(await reading(test, asked, BOB)).toMatchObject(whole)
    }
  })

  it('hides them from everybody else, as if they were not there', async () => {
    const test = await startUsers()
    for (const asked of [NOBODY, user('eve', 'staff'), user(''), user('org.service.user:bob')]) {
      expect(await reading(test, asked, BOB)).toBe(MISSING)
      expect(await reading(test, asked, 'org.service.user:nobody')).toBe(MISSING)
      using view = (await test.users(asked)).view()
      const revision = parseRevision(test.revision)
      await expect(openRevision(view, BOB, revision)).rejects.toThrow(MISSING)
      expect(await openRevisions(view, BOB, 'all')).toEqual([])
      expect(await openRevisions(view, BOB, [revision])).toEqual([{ found: false, revision }])
    }
  })

  it('does not reveal that there once was one', async () => {
    const test = await startUsers()
    await writing(test, ADMIN, remove(BOB, test.revision))
    expect(await reading(test, NOBODY, BOB)).toBe(MISSING)
    expect(await reading(test, ADMIN, BOB)).toBe('not_found: deleted')
  })

  it('shows everybody the public fields, and nothing else', async () => {
    const test = await startUsers({ public_fields: ' nick , email,' })
    expect(await reading(test, NOBODY, BOB)).toEqual({ _id: BOB, _rev: test.revision, nick: 'Bobby' })
    using view = (await test.users(user('eve'))).view()
    const options = { revisions: true, conflicts: true, localSequence: true, revisionsInfo: true }
    const shown = JSON.parse(stubText(await openDocument(view, BOB, options)).toString())
    expect(shown).toEqual({ _id: BOB, _rev: test.revision, nick: 'Bobby' })
    await writing(test, NOBODY, newUser('ann', 'x'))
    expect(await reading(test, NOBODY, 'org.service.user:ann')).toBe(MISSING)
  })

  it('shows design documents to administrators alone', async () => {
    const test = await startUsers({ public_fields: 'language' })
    expect(await reading(test, user('bob'), USERS_DESIGN_ID)).toBe(
      'forbidden: Only administrators can view design docs in the users database.',
    )
    expect(await reading(test, user('dora'), USERS_DESIGN_ID)).toMatchObject({ language: 'javascript' })
  })

  it('keeps lists, changes and functions for administrators', async () => {
    const test = await startUsers({ public_fields: 'nick' })
    const { reading: access } = await test.users(user('bob'))
    expect(() => access?.check('list')).toThrow('forbidden: Only admins can access _all_docs of system databases.')
    expect(() => access?.check('changes')).toThrow('unauthorized: You are not a db or server admin.')
    expect(() => access?.check('design action')).toThrow(
      'forbidden: Only admins can access design document actions for system databases.',
    )
    expect((await test.users(user('dora'))).reading).toBeUndefined()
  })

  it('lists users with their public fields where the operator says so', async () => {
    const test = await startUsers({ public_fields: 'nick', users_db_public: 'true' })
    const users = await test.users(NOBODY)
    using view = users.lastingView()
    const documents = { conflicts: false, contents: undefined, encodingInfo: false }
    const whole = { inclusiveEnd: true, descending: false, skip: 0, limit: 10, documents }
    const listed: unknown[] = []
    for await (const block of (await listRange(users, view, whole)).rows()) listed.push(...(await textsOf(block)))
    for await (const block of listKeys(view, [BOB], documents)) listed.push(...(await textsOf(block)))
    const docs = listed.map((row) => JSON.parse(String(row)).doc)
    expect(docs).toEqual([null, { nick: 'Bobby' }, { nick: 'Bobby' }])
  })
})

/** The function of the design document, run as other servers would. */
function refusalOfFunction(given: Parameters<typeof refusalOf>[0], admins: string[]): string | undefined {
  const validate: (...given: unknown[]) => void = new Function(`return ${USERS_VALIDATION}`)()
  const { id, deleted, after, before, user: asked } = given
  try {
    const document = { ...after, _id: id, ...(deleted && { _deleted: true }) }
    validate(document, before ?? null, { ...asked, db: '_users' }, { admins: { names: admins, roles: [] } })
    return undefined
  } catch (error) {
    return (error as { forbidden: string }).forbidden
  }
}

describe('the rules for user documents', () => {
  const good = { type: 'user', name: 'ann', roles: [] }
  const id = 'org.service.user:ann'
  const nobody = { id, deleted: false, before: undefined, user: NOBODY, isAdmin: false }
  const admin = { ...nobody, user: ADMIN, isAdmin: true }

  function reason(given: Parameters<typeof refusalOf>[0]): string | undefined {
    const refusal: RequestError | undefined = refusalOf(given)
    if (refusal) expect([refusal.kind, refusal.error]).toEqual(['forbidden', 'forbidden'])
    return refusal?.reason
  }

  it.each([
    [{ ...admin, after: {} }, 'doc.type must be user'],
    [{ ...admin, after: { ...good, type: 'User' } }, 'doc.type must be user'],
    [{ ...admin, after: good, before: { ...good, type: 'x' } }, 'doc.type must be user'],
    [{ ...admin, after: { type: 'user', roles: [] } }, 'doc.name is required'],
    [{ ...admin, after: { ...good, name: '' } }, 'doc.name is required'],
    [{ ...admin, after: { type: 'user', name: 'ann' } }, 'doc.roles must exist'],
    [{ ...admin, after: { ...good, roles: null } }, 'doc.roles must exist'],
    [{ ...admin, after: { ...good, roles: 'staff' } }, 'doc.roles must be an array'],
    [{ ...admin, after: { ...good, roles: ['a', 1] } }, 'doc.roles can only contain strings'],
    [{ ...admin, after: { ...good, name: 'bob' } }, 'Doc ID must be of the form org.service.user:name'],
    [{ ...admin, after: { ...good, name: 5 } }, 'Doc ID must be of the form org.service.user:name'],
    [{ ...admin, id: 'ann', after: good }, 'Doc ID must be of the form org.service.user:name'],
    [{ ...admin, after: good, before: { ...good, name: 'bob' } }, 'Usernames can not be changed.'],
    [{ ...admin, after: { ...good, password_sha: 'x' } }, 'Users with password_sha must have a salt.'],
    [{ ...admin, after: { ...good, password_scheme: 'pbkdf2' } }, 'iterations must be a number.'],
    [{ ...admin, after: { ...good, password_scheme: 'pbkdf2', iterations: 1 } }, 'derived_key must be a string.'],
    [{ ...nobody, after: good, before: good }, 'You may only update your own user document.'],
    [{ ...nobody, user: user('ann'), after: { ...good, roles: ['b'] }, before: good }, 'Only _admin may edit roles'],
    [{ ...nobody, after: { ...good, roles: ['a'] } }, 'Only _admin may set roles'],
    [{ ...admin, after: { ...good, roles: ['_admin'] } }, 'No system roles (starting with underscore) in users db.'],
    [
      { ...admin, id: 'org.service.user:_x', after: { ...good, name: '_x' } },
      'Username may not start with underscore.',
    ],
    [
      { ...admin, id: 'org.couchdb.user:a:b', after: { ...good, name: 'a:b' } },
      'Character `:` is not allowed in usernames.',
    ],
    [{ ...nobody, deleted: true, after: {}, before: good }, 'Only admins may delete other user docs.'],
    [{ ...nobody, deleted: true, after: {} }, 'Only admins may delete other user docs.'],
    [{ ...nobody, deleted: true, after: {}, before: {} }, 'Only admins may delete other user docs.'],
    [
      { ...nobody, user: user('dora'), isAdmin: true, deleted: true, after: {}, before: good },
      'Only admins may delete other user docs.',
    ],
    [{ ...admin, deleted: true, after: {}, before: good }, undefined],
    [{ ...nobody, user: user('ann'), deleted: true, after: {}, before: good }, undefined],
    [{ ...nobody, after: good }, undefined],
    [{ ...nobody, id: 'org.couchdb.user:ann', after: good }, undefined],
    [
      { ...nobody, user: user('ann'), after: { ...good, roles: ['b', 'a'] }, before: { ...good, roles: ['a', 'b'] } },
      undefined,
    ],
  ])('%j: %s', (given, expected) => {
    expect(reason(given)).toBe(expected)
    expect(refusalOfFunction(given, given.isAdmin ? ['dora'] : [])).toBe(expected)
  })

  it('are the same in the function of the design document', () => {
    const name = fc.constantFrom('ann', 'bob', '_x', 'a:b', '')
    const members = fc.record(
      {
        type: fc.constantFrom('user', 'x'),
        name,
        roles: fc.oneof(
          fc.constantFrom(null, 'x', 5),
          fc.array(fc.constantFrom<unknown>('a', 'b', '_r', 1), { maxLength: 2 }),
        ),
        password_sha: fc.constantFrom('', 'x'),
        salt: fc.constantFrom('', 's'),
        password_scheme: fc.constantFrom('simple', 'pbkdf2'),
        iterations: fc.constantFrom<unknown>(1, '1'),
        derived_key: fc.constantFrom<unknown>('k', 1),
      },
      { requiredKeys: ['type', 'name', 'roles'] },
    )
    const proper = fc.record({
      type: fc.constant('user'),
      name,
      roles: fc.array(fc.constantFrom<unknown>('a', 'b'), { maxLength: 2 }),
    })
    const change = fc.record({
      id: fc
        .constantFrom('org.service.user:', 'org.couchdb.user:', '')
        .chain((prefix) => name.map((each) => prefix + each)),
      deleted: fc.boolean(),
      after: fc.oneof(members, proper),
      before: fc.option(fc.oneof(members, proper), { nil: undefined }),
      user: fc.constantFrom(ADMIN, NOBODY, user('ann'), user('bob'), user('dora')),
    })
    fc.assert(
      fc.property(change, (given) => {
        const isAdmin = given.user === ADMIN || given.user.name === 'dora'
        expect(refusalOfFunction({ ...given, isAdmin }, ['dora'])).toBe(reason({ ...given, isAdmin }))
      }),
      { numRuns: 2_000 },
    )
  })
})
