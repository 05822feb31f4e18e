import { describe, expect, it } from 'vitest'
import { routes } from '../../../src/http/server/routes.ts'

/** Each method of each path with who may use it, as the matrix of rights has it. */
const table = routes
  .all()
  .flatMap(({ path, operations }) => Object.entries(operations).map(([method, { who }]) => ({ path, method, who })))

describe('the table of routes', () => {
  it('requires a server admin for server routes, except for public ones', () => {
    const ofServer = table.filter(({ path }) => !path.startsWith('/{db}'))
    const open = ofServer.filter(({ who }) => who === 'anyone').map(({ method, path }) => `${method} ${path}`)
    for (const path of ['/', '/favicon.ico', '/_all_dbs', '/_stats', '/_up', '/_utils', '/_uuids']) {
      expect(open).toContain(`GET ${path}`)
    }
    for (const path of ['/_active_tasks', '/_config', '/_db_updates', '/_log', '/_restart']) {
      const whoMay = ofServer.filter((each) => each.path === path).map(({ who }) => who)
      expect(new Set(whoMay), path).toEqual(new Set(['server admin']))
    }
  })

  /** All of them: a right that is dropped from the table is missing here. */
  const RESTRICTED = {
    'server admin': [
      'GET /_active_tasks',
      'GET /_config',
      'PUT /_config',
      'DELETE /_config',
      'GET /_db_updates',
      'GET /_dbs_info',
      'POST /_dbs_info',
      'GET /_log',
      'POST /_log',
      '* /_node',
      'POST /_plugins',
      'POST /_replicate',
      'POST /_restart',
      'GET /_scheduler',
      'PUT /{db}',
      'DELETE /{db}',
      'GET /{db}/_backup',
      'POST /{db}/_restore',
    ],
    'database admin': [
      'POST /{db}/_compact',
      'POST /{db}/_compact/{name}',
      'POST /{db}/_index',
      'POST /{db}/_index/{name}',
      'DELETE /{db}/_index/{name}/{name}',
      'POST /{db}/_purge',
      'GET /{db}/_purged_infos',
      'PUT /{db}/_purged_infos_limit',
      'GET /{db}/_tombstones',
      'PUT /{db}/_tombstones',
      'PUT /{db}/_expiry',
      'PUT /{db}/_revs_limit',
      'PUT /{db}/_security',
      'POST /{db}/_sync_shards',
      'POST /{db}/_temp_view',
      'POST /{db}/_view_cleanup',
      'PUT /{db}/_design/{name}',
      'POST /{db}/_design/{name}',
      'DELETE /{db}/_design/{name}',
      'PUT /{db}/_design/{name}/{name}',
      'DELETE /{db}/_design/{name}/{name}',
      'POST /{db}/_design/{name}/_compact',
    ],
  }
  it.each(Object.entries(RESTRICTED))('has nothing for a %s but what is listed here', (who, listed) => {
    const found = table.filter((each) => each.who === who).map(({ method, path }) => `${method} ${path}`)
    expect(found.toSorted()).toEqual(listed.toSorted())
  })

  it('requires members for every route of a database', () => {
    const inDatabase = table.filter(({ path }) => path.startsWith('/{db}'))
    expect(inDatabase.filter(({ who }) => who === 'anyone')).toEqual([])
  })

  it.each([
    ['PUT', '/{db}', 'server admin'],
    ['DELETE', '/{db}', 'server admin'],
    ['GET', '/{db}', 'member'],
    ['POST', '/{db}', 'writer'],
    ['PUT', '/{db}/{docid}', 'writer'],
    ['GET', '/{db}/_design/{name}', 'member'],
    ['PUT', '/{db}/_design/{name}', 'database admin'],
    ['DELETE', '/{db}/_design/{name}', 'database admin'],
    ['PUT', '/{db}/_design/{name}/{name}', 'database admin'],
    ['GET', '/{db}/_design/{name}/_list', 'member'],
    ['*', '/{db}/_design/{name}/_rewrite', 'member'],
    ['*', '/{db}/_design/{name}/_show', 'member'],
    ['*', '/{db}/_design/{name}/_update', 'writer'],
    ['PUT', '/{db}/_local/{name}', 'writer'],
    ['POST', '/{db}/_bulk_docs', 'writer'],
    ['GET', '/{db}/_changes', 'member'],
    ['POST', '/{db}/_changes', 'member'],
    ['POST', '/{db}/_compact', 'database admin'],
    ['POST', '/{db}/_purge', 'database admin'],
    ['GET', '/{db}/_security', 'member'],
    ['PUT', '/{db}/_security', 'database admin'],
    ['PUT', '/{db}/_revs_limit', 'database admin'],
  ])('gives %s %s to a %s', (method, path, who) => {
    expect(table.find((each) => each.method === method && each.path === path)?.who).toBe(who)
  })
})
