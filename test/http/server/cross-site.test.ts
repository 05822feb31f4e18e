/** What a page of another site can have a browser send without being asked: it must not change anything. */
import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

/** Forms and simple requests can have these types, or none at all. */
const TYPES = ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', undefined]

describe('a POST that is not JSON', () => {
  it.each([
    ['/_log', '{"level":"error","message":"forged"}'],
    ['/_restart', ''],
    ['/_node/_local/_restart', ''],
    ['/_node/_local/_config/_reload', ''],
    ['/_plugins', '{}'],
    ['/DB', '{}'],
    ['/DB/_bulk_docs', '{"docs":[{}]}'],
    ['/DB/_purge', '{"doc":["1-967a00dff5e02add41819138abb3284d"]}'],
    ['/DB/_ensure_full_commit', ''],
    ['/DB/_compact', ''],
    ['/DB/_compact/d', ''],
    ['/DB/_design/d/_compact', ''],
    ['/DB/_view_cleanup', ''],
    ['/DB/_temp_view', '{"map":"function() {}"}'],
  ])('%s is refused', async (path, body) => {
    const db = await client().database()
    await db.save('doc', {})
    await db.save('_design/d', { views: { v: { map: 'function() {}' } } })
    const before = await db.state()
    for (const type of TYPES) {
      const target = path.replace('DB', db.name)
      const reply = await client().request('POST', target, { body, headers: { 'Content-Type': type } })
      expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
    }
    expect(await db.state()).toEqual(before)
    expect((await client().request('GET', '/_log?bytes=100000')).text).not.toContain('forged')
  })
})
