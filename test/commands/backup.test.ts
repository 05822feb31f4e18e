import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import type { Service } from '../../src/service.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { contentsOf } from './compare-databases.ts'
import { runSettle, startSettle } from './run-settle.ts'

const JSON_TYPE = { 'Content-Type': 'application/json' }

async function request(service: Service, method: string, path: string, body?: unknown): Promise<Response> {
  const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
  const reply = await fetch(`${service.url}${path}`, {
    method,
    headers: JSON_TYPE,
    ...(text !== undefined && { body: text }),
  })
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`)
  return reply
}

async function json(service: Service, method: string, path: string, body?: unknown) {
  const text = await (await request(service, method, path, body)).text()
  return JSON.parse(text)
}

/** A database with a bit of everything. */
async function fillDatabase(service: Service, name = 'sample%2Fone'): Promise<void> {
  await request(service, 'PUT', name)
  await request(service, 'PUT', `${name}/_revs_limit`, '5')
  await request(service, 'PUT', `${name}/_security`, {
    members: { names: ['anna'], roles: [] },
    admins: { names: [], roles: [] },
  })
  const docs = Array.from({ length: 30 }, (_, i) => ({ _id: `doc-${i}`, n: i, text: 'ä'.repeat(i * 10) }))
  await request(service, 'POST', `${name}/_bulk_docs`, { docs })
  // Digits that JavaScript would lose.
  await request(service, 'PUT', `${name}/digits`, '{"big":12345678901234567890.10}')
  await request(service, 'PUT', `${name}/with%20%22quotes%22%20and%20%5C`, '{}')
  // A conflict, with a tombstone and attachments on either side.
  const edits = [
    { _id: 'conflict', _rev: '2-b', _revisions: { start: 2, ids: ['b', 'a'] }, side: 'left' },
    { _id: 'conflict', _rev: '2-c', _revisions: { start: 2, ids: ['c', 'a'] }, side: 'right' },
    { _id: 'conflict', _rev: '3-d', _revisions: { start: 3, ids: ['d', 'c', 'a'] }, _deleted: true },
  ]
  await request(service, 'POST', `${name}/_bulk_docs`, { docs: edits, new_edits: false })
  // More history than the limit keeps.
  let rev = ''
  for (let i = 0; i < 9; i++) ({ rev } = await json(service, 'PUT', `${name}/history${rev && `?rev=${rev}`}`, { i }))
  const put = async (path: string, type: string, body: Buffer, headers = {}) => {
    const reply = await fetch(`${service.url}${name}/${path}`, {
      method: 'PUT',
      headers: { 'Content-Type': type, ...headers },
      body: new Uint8Array(body),
    })
    return JSON.parse(await reply.text()).rev
  }
  rev = await put('files/text.txt', 'text/plain', Buffer.from('compressible '.repeat(50_000)))
  rev = await put(`files/raw.bin?rev=${rev}`, 'application/octet-stream', Buffer.alloc(600_000, 7))
  rev = await put(`files/empty?rev=${rev}`, 'application/octet-stream', Buffer.alloc(0))
  await put(`files/packed.txt?rev=${rev}`, 'text/plain', gzipSync('packed before it came'), {
    'Content-Encoding': 'gzip',
  })
  const { rev: gone } = await json(service, 'PUT', `${name}/gone`, { here: true })
  await request(service, 'DELETE', `${name}/gone?rev=${gone}`)
  await request(service, 'PUT', `${name}/_local/checkpoint`, { seq: 12 })
  await request(service, 'PUT', `${name}/_design/views`, {
    views: { n: { map: 'doc => emit(doc.n)' } },
    // What is refused now was accepted once, and comes back.
    validate_doc_update: 'function () { throw { forbidden: "nothing" } }',
  })
}

describe('settle backup and settle restore', () => {
  it('restore everything from a folder', async () => {
    const source = await startService()
    await fillDatabase(source)
    const to = join(await temporaryFolder(), 'backups')
    const made = await runSettle(['backup', '--to', to, '--url', source.url, '--verify'])
    expect(made).toMatchObject({ code: 0 })
    expect(made.err).toMatch(/all checksums are right/)

    const target = await startService()
    const restored = await runSettle(['restore', '--from', to, '--url', target.url])
    expect(restored.err).toMatch(/sample\/one: \d+ revisions restored/)
    expect(restored.code).toBe(0)
    expect(await contentsOf(target.url, 'sample/one')).toEqual(await contentsOf(source.url, 'sample/one'))
    const view = await json(target, 'GET', 'sample%2Fone/_design/views/_view/n')
    expect(view.total_rows).toBe(
      await json(source, 'GET', 'sample%2Fone/_design/views/_view/n').then((v) => v.total_rows),
    )
    expect((await fetch(`${target.url}sample%2Fone/_local/checkpoint`)).status).toBe(404)
  })

  it('add what changed since, purges and deletions included, and keep no segment without changes', async () => {
    const source = await startService()
    await fillDatabase(source, 'a')
    const to = await temporaryFolder()
    const backup = async () => {
      const { code, err } = await runSettle(['backup', '--to', to, '--url', source.url, '--db', 'a'])
      expect([code, err]).toEqual([0, expect.anything()])
      return err
    }
    await backup()
    expect(await backup()).toMatch(/a: nothing changed/)
    // More edits than the limit keeps: were both states merged, there would be two branches.
    let { _rev: rev } = await json(source, 'GET', 'a/doc-1')
    await request(source, 'DELETE', `a/_design/views?rev=${(await json(source, 'GET', 'a/_design/views'))._rev}`)
    for (let i = 0; i < 8; i++) ({ rev } = await json(source, 'PUT', `a/doc-1?rev=${rev}`, { i }))
    const two = await json(source, 'GET', 'a/doc-2')
    await request(source, 'DELETE', `a/doc-2?rev=${two._rev}`)
    const three = await json(source, 'GET', 'a/doc-3')
    await request(source, 'POST', 'a/_purge', { 'doc-3': [three._rev], conflict: ['2-b'] })
    const four = await json(source, 'GET', 'a/doc-4')
    await request(source, 'POST', 'a/_purge', { 'doc-4': [four._rev] })
    await request(source, 'PUT', 'a/doc-4', { again: true })
    expect(await backup()).toMatch(/a: \d changed documents/)
    await request(source, 'PUT', 'a/_security', { members: { names: ['bert'], roles: [] } })
    expect(await backup()).toMatch(/a: 0 changed documents/)
    expect((await runSettle(['backup', 'verify', to])).code).toBe(0)

    const target = await startService()
    expect(await runSettle(['restore', '--from', to, '--url', target.url, '--db', 'a=b'])).toMatchObject({ code: 0 })
    expect(await contentsOf(target.url, 'b')).toEqual(await contentsOf(source.url, 'a'))
    const listed = await runSettle(['backup', 'list', to])
    expect(listed.out.toString()).toMatch(/^a\tas of .*\t3 segments\t/m)
  })

  it('prove a backup by restoring it into a temporary server', async () => {
    const source = await startService()
    await fillDatabase(source, 'a')
    await request(source, 'PUT', '_replicator/job', { source: 'a', target: 'b', create_target: true, continuous: true })
    const to = await temporaryFolder()
    await runSettle(['backup', '--to', to, '--url', source.url])
    const scratch = await temporaryFolder()
    const { code, err } = await runSettle(['backup', 'verify', to, '--restore', '--scratch', scratch])
    expect([code, err]).toEqual([0, expect.stringMatching(/_replicator: \d+ revisions? restored as trial_replicator/)])
    expect(err).toMatch(/databases checked: nothing is wrong/)
    expect(await readdir(scratch)).toEqual([])
  })

  it('make a full backup where the database is another one of the same name, or purges are not recorded any more', async () => {
    const source = await startService()
    const to = await temporaryFolder()
    const backup = () => runSettle(['backup', '--to', to, '--url', source.url, '--db', 'a'])
    await request(source, 'PUT', 'a')
    await request(source, 'PUT', 'a/one', {})
    await backup()
    await request(source, 'DELETE', 'a')
    await request(source, 'PUT', 'a')
    await request(source, 'PUT', 'a/two', {})
    await request(source, 'PUT', 'a/three', {})
    expect((await backup()).err).toMatch(/recreated under the same name/)
    await request(source, 'PUT', 'a/_purged_infos_limit', '1')
    for (const id of ['four', 'five', 'six']) {
      const { rev } = await json(source, 'PUT', `a/${id}`, {})
      await request(source, 'POST', 'a/_purge', { [id]: [rev] })
    }
    await request(source, 'POST', 'a/_compact')
    await expect.poll(async () => (await json(source, 'GET', 'a')).compact_running).toBe(false)
    expect((await backup()).err).toMatch(/no longer stored/)
    expect((await readdir(join(to, 'databases'))).toSorted()).toEqual(['a.1', 'a.2', 'a.3'])
    const target = await startService()
    await runSettle(['restore', '--from', to, '--url', target.url, '--db', 'a'])
    expect(await contentsOf(target.url, 'a')).toEqual(await contentsOf(source.url, 'a'))
  })

  it('work with pipes', async () => {
    const source = await startService()
    await fillDatabase(source, 'a')
    await request(source, 'PUT', 'b')
    const { code, out } = await runSettle(['backup', '--to', '-', '--url', source.url])
    expect(code).toBe(0)
    expect(out.toString('latin1', 0, 16)).toBe('settle backup 1\n')
    expect((await runSettle(['backup', 'verify', '-'], { input: out })).code).toBe(0)
    const damaged = Buffer.from(out)
    damaged[out.length >> 1]! ^= 1
    expect((await runSettle(['backup', 'verify', '-'], { input: damaged })).code).toBe(3)
    expect((await runSettle(['backup', 'verify', '-'], { input: out.subarray(0, out.length >> 1) })).code).toBe(3)

    const target = await startService()
    const restored = await runSettle(['restore', '--from', '-', '--local-documents', '--url', target.url], {
      input: out,
    })
    expect(restored).toMatchObject({ code: 0 })
    expect(await contentsOf(target.url, 'a')).toEqual(await contentsOf(source.url, 'a'))
    expect((await json(target, 'GET', 'a/_local/checkpoint')).seq).toBe(12)
    expect((await json(target, 'GET', 'b')).doc_count).toBe(0)
  })

  it('refuse a database that exists, and merge into it when asked', async () => {
    const source = await startService()
    await request(source, 'PUT', 'a')
    await request(source, 'PUT', 'a/one', { from: 'source' })
    const to = await temporaryFolder()
    await runSettle(['backup', '--to', to, '--url', source.url])
    const target = await startService()
    await request(target, 'PUT', 'a')
    await request(target, 'PUT', 'a/other', {})
    const refused = await runSettle(['restore', '--from', to, '--url', target.url, '--db', 'a'])
    expect(refused).toMatchObject({ code: 1, err: expect.stringMatching(/exists already/) })
    expect((await json(target, 'GET', 'a')).doc_count).toBe(1)
    expect(await runSettle(['restore', '--from', to, '--url', target.url, '--db', 'a', '--merge'])).toMatchObject({
      code: 0,
    })
    expect((await json(target, 'GET', 'a')).doc_count).toBe(2)
  })

  it('find damage', async () => {
    const source = await startService()
    await fillDatabase(source, 'a')
    const to = await temporaryFolder()
    await runSettle(['backup', '--to', to, '--url', source.url, '--db', 'a'])
    const path = join(to, 'databases/a.1/000001.frames')
    const good = await readFile(path)
    for (const at of [0, 20, good.length >> 1, good.length - 3]) {
      const bad = Buffer.from(good)
      bad[at]! ^= 1
      await writeFile(path, bad)
      const { code, err } = await runSettle(['backup', 'verify', to])
      expect([code, err]).toEqual([3, expect.stringMatching(/a\.1\/000001\.frames: /)])
    }
    const target = await startService()
    const restored = await runSettle(['restore', '--from', to, '--url', target.url, '--db', 'a'])
    expect(restored.code).toBe(3)
  })

  it('need an administrator where there is one, whose password is on no command line', async () => {
    const source = await startService()
    await request(source, 'PUT', 'a')
    await request(source, 'PUT', '_config/admins/anna', '"secret"')
    const to = await temporaryFolder()
    const args = ['backup', '--to', to, '--url', source.url]
    expect(await runSettle(args)).toMatchObject({ code: 1, err: expect.stringMatching(/SETTLE_PASSWORD/) })
    const nobody = await fetch(`${source.url}a/_backup`)
    expect(nobody.status).toBe(401)
    const environment = { SETTLE_USER: 'anna', SETTLE_PASSWORD: 'secret' }
    expect(await runSettle(args, { environment })).toMatchObject({ code: 0 })
    const file = join(await temporaryFolder(), 'password')
    await writeFile(file, 'secret\n')
    expect(await runSettle([...args, '--user', 'anna', '--password-file', file])).toMatchObject({ code: 0 })
    // Users and settings come back too.
    const target = await startService()
    expect(await runSettle(['restore', '--from', to, '--settings', '--url', target.url])).toMatchObject({ code: 0 })
    const authorization = `Basic ${Buffer.from('anna:secret').toString('base64')}`
    expect((await fetch(`${target.url}_config`, { headers: { authorization } })).status).toBe(200)
    expect((await fetch(`${target.url}_config`)).status).toBe(401)
  })

  it.each([
    [['backup'], /--to/],
    [['backup', '--to', 'x', '--url', 'ftp://x'], /http:\/\//],
    [['backup', '--nonsense'], /Try settle backup --help/],
    [['restore', '--from', '/nowhere/at/all'], /cannot be read/],
    [['backup', 'verify'], /Name one folder/],
  ])('report the error of %j', async (args, message) => {
    const { code, err } = await runSettle(args)
    expect([code, err]).toEqual([1, expect.stringMatching(message)])
    expect(err.trim().split('\n')).toHaveLength(1)
  })

  it('are commands of settle', async () => {
    const unknown = await startSettle(['unknown']).ended
    expect(unknown).toMatchObject({ code: 1, err: 'settle: There is no command unknown. Try --help.\n' })
    const verified = await startSettle(['backup', 'verify', '/nowhere/at/all']).ended
    expect(verified).toMatchObject({ code: 1, err: expect.stringMatching(/^settle backup: .* cannot be read/) })
  })

  it('have a --help', async () => {
    for (const command of ['backup', 'restore']) {
      const { code, out } = await runSettle([command, '--help'])
      expect([code, out.toString()]).toEqual([0, expect.stringMatching(new RegExp(`^Usage: settle ${command} `))])
    }
  })
})
