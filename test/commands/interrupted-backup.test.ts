import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { contentsOf } from './compare-databases.ts'
import { cuttingProxy } from './cutting-proxy.ts'
import { runSettle } from './run-settle.ts'

describe('a backup that is interrupted', () => {
  it('continues where it stopped, though the database changed meanwhile, and so does a restore', async () => {
    const source = await startService()
    const put = async (path: string, body: unknown, method = 'PUT') => {
      const headers = { 'Content-Type': 'application/json' }
      const reply = await fetch(`${source.url}a${path}`, { method, headers, body: JSON.stringify(body) })
      if (!reply.ok) throw new Error(`${path}: ${reply.status}`)
    }
    const edit = async (round: number, from: number, count: number) => {
      const docs = Array.from({ length: count }, (_, i) => ({
        _id: `doc-${from + i}`,
        _rev: `1-${round}`,
        text: 'x'.repeat(1000),
        _attachments: i % 50 === 0 ? { big: { data: Buffer.alloc(20_000, round).toString('base64'), revpos: 1 } } : {},
      }))
      await put('/_bulk_docs', { docs, new_edits: false }, 'POST')
    }
    await put('', undefined)
    await edit(0, 0, 1500)
    const to = await temporaryFolder()
    const proxy = await cuttingProxy(source.url)
    let interruptions = 0
    for (let round = 1; ; round++) {
      proxy.allow(round < 5 ? 700_000 : Number.POSITIVE_INFINITY)
      const { code, err } = await runSettle(['backup', '--to', to, '--url', proxy.url, '--db', 'a'])
      if (code === 0) break
      expect([code, err]).toEqual([2, expect.stringMatching(/run the command again/)])
      interruptions++
      // New conflicts of documents that are saved already, and of some that are not.
      await edit(round, round * 250, 100)
      await put('/_purge', { [`doc-${round}`]: ['1-0'] }, 'POST')
    }
    expect(interruptions).toBe(4)
    const files = await readdir(join(to, 'databases/a.1'))
    expect(files.filter((file) => file.endsWith('.frames')).length).toBeGreaterThan(3)
    expect(await runSettle(['backup', 'verify', to])).toMatchObject({ code: 0 })

    const target = await startService()
    const other = await cuttingProxy(target.url)
    let attempts = 0
    for (; ; attempts++) {
      other.allow(attempts < 3 ? 1_500_000 : Number.POSITIVE_INFINITY)
      const { code, err } = await runSettle(['restore', '--from', to, '--url', other.url, '--db', 'a'])
      if (code === 0) break
      expect([code, err]).toEqual([2, expect.stringMatching(/cannot be reached/)])
    }
    expect(attempts).toBeGreaterThan(0)
    expect(await contentsOf(target.url, 'a')).toEqual(await contentsOf(source.url, 'a'))
    // Run once more it has nothing to do, and an old marker is in no way of another restore.
    const again = await runSettle(['restore', '--from', to, '--url', target.url, '--db', 'a'])
    expect(again).toMatchObject({ code: 0, err: expect.stringMatching(/was restored from this backup before/) })
    expect(await contentsOf(target.url, 'a')).toEqual(await contentsOf(source.url, 'a'))
  })

  it('keeps what is restorable: the state of the last complete one', async () => {
    const source = await startService()
    const url = (path: string) => `${source.url}a${path}`
    await fetch(url(''), { method: 'PUT' })
    await fetch(url('/first'), { method: 'PUT', body: '{}' })
    const to = await temporaryFolder()
    await runSettle(['backup', '--to', to, '--url', source.url, '--db', 'a'])
    const before = await contentsOf(source.url, 'a')
    const docs = Array.from({ length: 2000 }, (_, i) => ({ _id: `doc-${i}`, text: 'x'.repeat(1000) }))
    const headers = { 'Content-Type': 'application/json' }
    await fetch(url('/_bulk_docs'), { method: 'POST', headers, body: JSON.stringify({ docs }) })
    const proxy = await cuttingProxy(source.url)
    proxy.allow(1_000_000)
    expect((await runSettle(['backup', '--to', to, '--url', proxy.url, '--db', 'a'])).code).toBe(2)
    const target = await startService()
    expect(await runSettle(['restore', '--from', to, '--url', target.url, '--db', 'a'])).toMatchObject({ code: 0 })
    expect(await contentsOf(target.url, 'a')).toEqual(before)
  })
})
