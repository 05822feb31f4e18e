/** Backups that are not what was written: whatever is wrong with one is said, and no restore succeeds with less. */
import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readFrames } from '../../src/backup/frame.ts'
import type { Service } from '../../src/service.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { contentsOf } from './compare-databases.ts'
import { runSettle } from './run-settle.ts'

async function send(service: Service, method: string, path: string, body?: unknown): Promise<Response> {
  const headers = { 'Content-Type': 'application/json' }
  const text = body === undefined ? {} : { body: JSON.stringify(body) }
  const reply = await fetch(`${service.url}${path}`, { method, headers, ...text })
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`)
  return reply
}

/** A chain of two segments; the second one has newer revisions of some documents of the first. */
async function chainOfTwo(): Promise<{ source: Service; to: string; folder: string }> {
  const source = await startService()
  await send(source, 'PUT', 'a')
  const docs = Array.from({ length: 20 }, (_, i) => ({ _id: `doc-${i}`, n: i }))
  await send(source, 'POST', 'a/_bulk_docs', { docs })
  await send(source, 'PUT', 'a/files', {
    _attachments: { one: { content_type: 'image/png', data: Buffer.alloc(3000, 1).toString('base64') } },
  })
  const to = await temporaryFolder()
  expect(await runSettle(['backup', '--to', to, '--url', source.url, '--db', 'a'])).toMatchObject({ code: 0 })
  for (let i = 0; i < 5; i++) {
    const { _rev } = JSON.parse(await (await send(source, 'GET', `a/doc-${i}`)).text())
    await send(source, 'PUT', `a/doc-${i}`, { _rev, newer: true })
  }
  expect(await runSettle(['backup', '--to', to, '--url', source.url, '--db', 'a'])).toMatchObject({ code: 0 })
  return { source, to, folder: join(to, 'databases/a.1') }
}

/** Where its frames end. */
async function frameEnds(bytes: Buffer): Promise<number[]> {
  const ends: number[] = []
  const pieces = async function* () {
    yield bytes
  }
  for await (const frames of readFrames(pieces())) ends.push(...frames.map(({ end }) => end))
  return ends
}

describe('a folder of backups', () => {
  it('whose segment was cut between two frames is not restored silently', async () => {
    const { to, folder } = await chainOfTwo()
    const target = await startService()
    let number = 0
    for (const file of ['000001.frames', '000002.frames']) {
      const path = join(folder, file)
      const good = await readFile(path)
      const ends = await frameEnds(good)
      for (const end of [ends[2]!, ends.at(-2)!]) {
        await truncate(path, end)
        expect(await runSettle(['backup', 'verify', to])).toMatchObject({ code: 3 })
        for (const more of [[], ['--merge']]) {
          const name = `b${number++}`
          if (more.length > 0) await send(target, 'PUT', name)
          const restored = await runSettle(['restore', '--from', to, '--url', target.url, '--db', `a=${name}`, ...more])
          expect(restored).toMatchObject({ code: 3, err: expect.stringContaining(file) })
        }
        await writeFile(path, good)
      }
    }
  })

  it('that lacks a segment is not restored silently', async () => {
    const { to, folder } = await chainOfTwo()
    const target = await startService()
    const manifest = JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8'))
    const first = { ...manifest, segments: manifest.segments.slice(1) }
    await writeFile(join(folder, 'manifest.json'), JSON.stringify(first))
    expect(await runSettle(['backup', 'verify', to])).toMatchObject({ code: 3 })
    expect(await runSettle(['restore', '--from', to, '--url', target.url, '--db', 'a=b'])).toMatchObject({ code: 3 })
    await writeFile(join(folder, 'manifest.json'), JSON.stringify(manifest))
    await rm(join(folder, '000001.frames'))
    expect(await runSettle(['backup', 'verify', to])).toMatchObject({ code: 3 })
    expect(await runSettle(['restore', '--from', to, '--url', target.url, '--db', 'a=c'])).toMatchObject({ code: 3 })
  })

  it('whose manifest is lost or damaged is restored from its segments', async () => {
    const { source, to, folder } = await chainOfTwo()
    const target = await startService()
    for (const [i, text] of ['{"format":1', '', undefined].entries()) {
      if (text === undefined) await rm(join(folder, 'manifest.json'))
      else await writeFile(join(folder, 'manifest.json'), text)
      expect(await runSettle(['backup', 'verify', to])).toMatchObject({ code: text === undefined ? 0 : 3 })
      const args = ['restore', '--from', to, '--url', target.url, '--db', `a=b${i}`]
      expect(await runSettle(args)).toMatchObject({ code: 0 })
      expect(await contentsOf(target.url, `b${i}`)).toEqual(await contentsOf(source.url, 'a'))
    }
    // The next backup goes on with the chain.
    await send(source, 'PUT', 'a/more', {})
    expect(await runSettle(['backup', '--to', to, '--url', source.url, '--db', 'a'])).toMatchObject({ code: 0 })
    expect(await readdir(join(to, 'databases'))).toEqual(['a.1'])
    expect(await runSettle(['backup', 'verify', to])).toMatchObject({ code: 0 })
  })

  it('never loses a finished segment to a later run', async () => {
    const { source, to, folder } = await chainOfTwo()
    await rm(join(folder, 'manifest.json'))
    const path = join(folder, '000001.frames')
    const bad = await readFile(path)
    bad[bad.length >> 1]! ^= 1
    await writeFile(path, bad)
    await runSettle(['backup', '--to', to, '--url', source.url, '--db', 'a'])
    expect((await readFile(path)).equals(bad)).toBe(true)
    expect(await readdir(folder)).toContain('000002.frames')
    const target = await startService()
    expect(await runSettle(['restore', '--from', to, '--url', target.url, '--db', 'a'])).toMatchObject({ code: 0 })
    expect(await contentsOf(target.url, 'a')).toEqual(await contentsOf(source.url, 'a'))
  })
})

async function streamOfTwo(): Promise<{ source: Service; stream: Buffer }> {
  const source = await startService()
  for (const name of ['a', 'b']) {
    await send(source, 'PUT', name)
    await send(source, 'PUT', `${name}/doc`, { text: 'x'.repeat(50) })
    await send(source, 'PUT', `${name}/file`, {
      _attachments: { one: { content_type: 'image/png', data: Buffer.alloc(60, 1).toString('base64') } },
    })
    await send(source, 'PUT', `${name}/_security`, { members: { names: ['anna'], roles: [] } })
    await send(source, 'PUT', `${name}/_local/one`, { local: true })
  }
  const { out } = await runSettle(['backup', '--to', '-', '--url', source.url, '--db', 'a', '--db', 'b'])
  return { source, stream: out }
}

describe('a backup as a stream', () => {
  it('is refused by verify when any byte of it is changed', async () => {
    const { stream } = await streamOfTwo()
    const passed: number[] = []
    for (let at = 0; at < stream.length; at += 3) {
      const bad = Buffer.from(stream)
      bad[at]! ^= 1 << (at % 8)
      const { code } = await runSettle(['backup', 'verify', '-', '--quiet'], { input: bad })
      if (code !== 3) passed.push(at)
    }
    expect(passed).toEqual([])
  })

  it('is refused by verify when it ends early, wherever that is', async () => {
    const { stream } = await streamOfTwo()
    const passed: number[] = []
    const ends = [...(await frameEnds(stream)).slice(0, -1), ...Array.from({ length: stream.length }, (_, i) => i)]
    for (const end of ends.filter((each, i) => i < 40 || each % 3 === 0)) {
      const { code } = await runSettle(['backup', 'verify', '-', '--quiet'], { input: stream.subarray(0, end) })
      if (code !== 3) passed.push(end)
    }
    expect(passed).toEqual([])
  })

  it('is not restored silently when a byte of it is changed, or it ends early', async () => {
    const { source, stream } = await streamOfTwo()
    const target = await startService()
    const ends = await frameEnds(stream)
    const cuts = [...ends.slice(0, -1), 0, 10, 100, stream.length - 1]
    const flips = Array.from({ length: 40 }, (_, i) => Math.floor((i * stream.length) / 40))
    const bad = [
      ...cuts.map((end) => stream.subarray(0, end)),
      ...flips.map((at) => {
        const copy = Buffer.from(stream)
        copy[at]! ^= 4
        return copy
      }),
    ]
    for (const [i, input] of bad.entries()) {
      const args = ['restore', '--from', '-', '--url', target.url, '--db', `a=a${i}`, '--db', `b=b${i}`]
      const { code, err } = await runSettle(args, { input })
      expect([i, code, err]).toEqual([i, 3, expect.stringMatching(/\w/)])
    }
    const whole = await runSettle(['restore', '--from', '-', '--url', target.url, '--db', 'a'], { input: stream })
    expect(whole).toMatchObject({ code: 0 })
    expect(await contentsOf(target.url, 'a')).toEqual(await contentsOf(source.url, 'a'))
  })
})
