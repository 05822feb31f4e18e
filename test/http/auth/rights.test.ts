/**
 * Who may do what, asked of a running server: every method of every path of the route table, as everybody there is. What
 * is expected comes from the table alone, so a new route is asked from the day that it is there.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ANY_METHOD, type Operation, type Route, type Who } from '../../../src/http/server/route.ts'
import { routes } from '../../../src/http/server/routes.ts'
import { createService, type Service } from '../../../src/service.ts'
import { Client, type Reply, type RequestOptions } from '../../support/client.ts'
import { withQuickHashes } from '../../support/quick-hashes.ts'
import { type StoragePlace, storagePlace } from '../../support/storage-place.ts'

const PEOPLE = ['server admin', 'database admin', 'member', 'user', 'nobody'] as const
type Person = (typeof PEOPLE)[number]

const PASSWORDS: Partial<Record<Person, string>> = {
  'server admin': 'root:top',
  'database admin': 'dora:pass',
  member: 'mia:pass',
  user: 'eve:pass',
}

const SERVER = 'You are not a server admin.'
const DATABASE = 'You are not a db or server admin.'
const MEMBER = 'You are not authorized to access this db.'

/** The refusal of this request; undefined when it is not about rights. */
function refusalFor(who: Who, person: Person, hasMembers: boolean): string | undefined {
  if (who === 'anyone' || person === 'server admin') return undefined
  if (who === 'server admin') return SERVER
  if (person === 'database admin') return undefined
  if (hasMembers && person !== 'member') return MEMBER
  return who === 'database admin' ? DATABASE : undefined
}

interface Cell {
  readonly name: string
  readonly path: string
  readonly method: string
  readonly operation: Operation
}

/** HEAD goes wherever GET goes, and has its rights. Where a path takes every other method, some of them stand for all. */
function sentFor(method: string, operations: Route['operations']): string[] {
  if (method === 'GET') return ['GET', 'HEAD']
  if (method !== ANY_METHOD) return [method]
  return ['POST', 'PUT', 'DELETE', 'PATCH'].filter((each) => !(each in operations))
}

const cells: Cell[] = routes.all().flatMap(({ path, operations }: Route) =>
  Object.entries(operations)
    .flatMap(([method, operation]) => sentFor(method, operations).map((each) => ({ each, operation })))
    .map(({ each, operation }) => ({ name: `${each} ${path}`, path, method: each, operation })),
)

/** Would end what the others are asked of. */
const SPARED = new Set(['POST /_restart'])

function target(path: string, database: string): string {
  // Would wait for something to happen.
  if (path === '/_db_updates') return `${path}?timeout=0`
  return path.replace('{db}', database).replace('{docid}', 'some-document').replaceAll('{name}', 'some-name')
}

/** A request that gets as far as the question of rights, and does no harm if it gets further. */
function optionsFor(person: Person | undefined): RequestOptions {
  const password = person && PASSWORDS[person]
  const authorization = password && `Basic ${Buffer.from(password).toString('base64')}`
  return { headers: { Authorization: authorization, 'Content-Type': 'application/json' } }
}

function reasonOf(reply: Reply, method: string): string | undefined {
  if (reply.status !== 401) return undefined
  // There is no body to tell it.
  return method === 'HEAD' ? 'refused' : reply.as<{ reason: string }>().reason
}

describe('rights', () => {
  let place: StoragePlace | undefined
  let service: Service | undefined
  let client: Client

  beforeAll(async () => {
    place = await storagePlace({})
    service = await createService({ port: 0, ...withQuickHashes(place.options) })
    client = new Client(await service.listen())
    const put = async (path: string, body: unknown) => {
      const reply = await client.request('PUT', path, { body })
      expect(reply.status, `${path} ${reply.text}`).toBeLessThan(300)
    }
    for (const name of ['dora', 'mia', 'eve']) {
      await put(`/_users/org.service.user:${name}`, { name, password: 'pass', roles: [], type: 'user' })
    }
    const admins = { names: ['dora'], roles: [] }
    for (const name of ['closed', 'public']) {
      await put(`/${name}`, undefined)
      const members = { names: name === 'closed' ? ['mia'] : [], roles: [] }
      await put(`/${name}/_security`, { admins, members })
    }
  })

  afterAll(async () => {
    client.close()
    await service?.close()
    await place?.remove()
  })

  describe('while there is no administrator', () => {
    it.each(cells.filter(({ name }) => !SPARED.has(name)))('$name is public', async ({ path, method }) => {
      // `none` is not there: nothing is created or deleted that others need.
      const database = path === '/{db}' ? 'none' : 'closed'
      const reply = await client.request(method, target(path, database), optionsFor(undefined))
      expect(reasonOf(reply, method)).toBeUndefined()
      if (method === 'PUT' && path === '/{db}') await client.request('DELETE', '/none')
    })
  })

  describe('with an administrator', () => {
    beforeAll(async () => {
      const reply = await client.request('PUT', '/_config/admins/root', { body: '"top"' })
      expect(reply.status, reply.text).toBe(200)
    })

    /** Sends one request as somebody; throws where the reply is not that of this right. */
    async function expectRight(
      { path, method, operation }: Cell,
      person: Person,
      database: string,
      who = operation.who,
    ) {
      // A session ends with its cookie alone, and whoever has none is told so.
      if (path === '/_session' && method === 'DELETE') return
      const isWhole = path === '/{db}' && who === 'server admin'
      const name = isWhole ? 'none' : database
      const options = optionsFor(person)
      // What is no object is told before rights; what is wrong inside is not, and changes nothing.
      const body = path === '/{db}/_security' && method === 'PUT' ? { body: '{"admins":5}' } : {}
      const reply = await client.request(method, target(path, name), { ...options, ...body })
      const expected = refusalFor(who, person, database === 'closed')
      expect(reasonOf(reply, method)).toBe(expected && method === 'HEAD' ? 'refused' : expected)
      if (isWhole && method === 'PUT' && !expected) await client.request('DELETE', '/none', optionsFor(person))
    }

    for (const person of PEOPLE) {
      for (const database of ['closed', 'public']) {
        it.each(cells.filter(({ name }) => person !== 'server admin' || !SPARED.has(name)))(
          `$name of a ${database} database, asked by ${person}`,
          (cell) => expectRight(cell, person, database),
        )
      }
    }

    it.each(['PUT /{db}/_security', 'GET /{db}/_backup', 'GET /_config'])(
      'a right that is dropped is found: %s',
      async (name) => {
        const cell = cells.find((each) => each.name === name)
        if (!cell) throw new Error(`${name} is not in the table.`)
        const { who } = cell.operation
        Object.defineProperty(cell.operation, 'who', { value: 'anyone' })
        try {
          await expect(expectRight(cell, 'nobody', 'public', who)).rejects.toThrow(/expected undefined/)
        } finally {
          Object.defineProperty(cell.operation, 'who', { value: who })
        }
        await expectRight(cell, 'nobody', 'public')
      },
    )

    it.each(PEOPLE)('design documents of a bulk request are authorized one by one for a %s', async (person) => {
      const documents = [{ _id: `_design/of-${person}` }, { _id: `of-${person}` }]
      const body = { docs: documents }
      const reply = await client.request('POST', '/public/_bulk_docs', { ...optionsFor(person), body })
      const mayDesign = person === 'server admin' || person === 'database admin'
      const refused = { id: documents[0]?._id, error: 'unauthorized', reason: DATABASE }
      expect(reply.as<unknown[]>()[0]).toEqual(mayDesign ? expect.objectContaining({ ok: true }) : refused)
      expect(reply.as<unknown[]>()[1]).toMatchObject({ ok: true })
    })

    it.each([
      ['POST', '/public', { body: { _id: '_design/posted' } }],
      ['PUT', '/public/_design/put', { body: {} }],
      ['PUT', '/public/_design%2Fput', { body: {} }],
      ['COPY', '/public/some', { headers: { Destination: '_design/copied' } }],
      ['PUT', '/public/_design/put/attachment', { body: 'x' }],
    ])('%s %s cannot make a member write a design document', async (method, path, options) => {
      await client.request('PUT', '/public/some', { ...optionsFor('member'), body: {} })
      const { headers } = optionsFor('member')
      const given: RequestOptions = options
      const reply = await client.request(method, path, { ...given, headers: { ...headers, ...given.headers } })
      expect([reply.status, reply.text]).toEqual([
        401,
        `${JSON.stringify({ error: 'unauthorized', reason: DATABASE })}\n`,
      ])
    })

    it('a missing database is reported before rights are checked', async () => {
      const reply = await client.request('GET', '/none/x', optionsFor('nobody'))
      expect(reply.status).toBe(404)
      expect((await client.request('PUT', '/None', optionsFor('nobody'))).status).toBe(401)
      expect((await client.request('PUT', '/closed', optionsFor('user'))).status).toBe(401)
    })

    it('a wrong password is refused everywhere', async () => {
      const headers = { Authorization: `Basic ${Buffer.from('eve:wrong').toString('base64')}` }
      for (const path of ['/', '/_up', '/_uuids', '/public', '/none']) {
        const reply = await client.request('GET', path, { headers })
        expect([reply.status, reasonOf(reply, 'GET')]).toEqual([401, 'Name or password is incorrect.'])
      }
    })
  })
})
