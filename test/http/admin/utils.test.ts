import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { afterAll, describe, expect, it } from 'vitest'
import { Client, serverOfFile } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { TEST_NODES } from '../../support/test-service.ts'

const PAGE = '<!doctype html><title>Settle</title>'
const SCRIPT = `export const answer = ${'42 + '.repeat(100)}0`

const folder = mkdtempSync(join(tmpdir(), 'settle-interface-'))
mkdirSync(join(folder, 'assets'))
writeFileSync(join(folder, 'index.html'), PAGE)
writeFileSync(join(folder, 'session.html'), PAGE)
writeFileSync(join(folder, '.stamp'), 'secret')
writeFileSync(join(folder, 'assets/main.js'), SCRIPT)
writeFileSync(join(folder, 'assets/main.js.br'), brotliCompressSync(SCRIPT))
writeFileSync(join(folder, 'assets/main.js.gz'), gzipSync(SCRIPT))
afterAll(() => rm(folder, { recursive: true }))

const client = serverOfFile({ interfaceDir: folder })
const get = (path: string, headers: Record<string, string> = {}) => client().request('GET', path, { headers })
const file = '/_utils/assets/main.js'

describe('the administration interface', () => {
  it.each(['/_utils', '/_utils/assets'])('%s redirects to the same with a slash', async (path) => {
    const reply = await get(path)
    expect([reply.status, reply.headers.location]).toEqual([301, `http://${client().host}${path}/`])
  })

  it.each(['/_utils/', '/_utils/index.html', '/_utils/session.html'])('%s is a page', async (path) => {
    const reply = await get(path)
    expect([reply.status, reply.headers['content-type'], reply.text]).toEqual([200, 'text/html;charset=utf-8', PAGE])
    expect(reply.headers['cache-control']).toBe('private, must-revalidate')
    // The date is when the process was started, and each node has one.
    const known =
      TEST_NODES > 1
        ? { 'If-None-Match': reply.headers.etag ?? '' }
        : { 'If-Modified-Since': reply.headers['last-modified'] ?? '' }
    const again = await get(path, known)
    expect([again.status, again.text]).toEqual([304, ''])
  })

  it('runs and loads nothing but its own files', async () => {
    const { headers } = await get('/_utils/')
    const policy = headers['content-security-policy']
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self';/)
    expect(policy).not.toContain('unsafe')
    expect([headers['x-content-type-options'], headers['referrer-policy']]).toEqual(['nosniff', 'no-referrer'])
  })

  it.each([
    '/_utils/nosuch',
    '/_utils/../package.json',
    '/_utils/%2e%2e%2fpackage.json',
    '/_utils/index.html/x',
    '/_utils/.stamp',
    '/_utils/assets/',
    '/_utils/assets%2fmain.js',
    '/_utils/assets/main.js.br',
  ])('%s answers 404', async (path) => {
    const reply = await get(path)
    expect([reply.status, reply.headers['content-type'], reply.text]).toEqual([404, 'text/plain', 'Not found.'])
  })

  it('is compressed as the client accepts, each form with an ETag of its own', async () => {
    const forms = [
      ['br, gzip', 'br', (body: Buffer) => brotliDecompressSync(body)],
      ['gzip;q=0.5, br;q=0', 'gzip', (body: Buffer) => gunzipSync(body)],
      ['identity', undefined, (body: Buffer) => body],
      ['', undefined, (body: Buffer) => body],
    ] as const
    const tags = new Set<string>()
    for (const [accepted, encoding, unpacked] of forms) {
      const reply = await get(file, { 'Accept-Encoding': accepted })
      expect(reply.headers['content-encoding'], accepted).toBe(encoding)
      expect(reply.headers.vary).toBe('Accept-Encoding')
      expect(reply.headers['content-type']).toBe('text/javascript;charset=utf-8')
      expect(unpacked(reply.body).toString()).toBe(SCRIPT)
      const tag = reply.headers.etag ?? ''
      tags.add(tag)
      const again = await get(file, { 'Accept-Encoding': accepted, 'If-None-Match': tag })
      expect([again.status, again.text]).toEqual([304, ''])
    }
    expect(tags.size).toBe(3)
    expect((await get(file, { 'If-None-Match': '"other"' })).status).toBe(200)
  })

  it('is sent in ranges', async () => {
    const part = await get(file, { Range: 'bytes=7-11', 'Accept-Encoding': 'br' })
    expect([part.status, part.text]).toEqual([206, 'const'])
    expect(part.headers['content-range']).toBe(`bytes 7-11/${SCRIPT.length}`)
    expect(part.headers['content-encoding']).toBeUndefined()
    const several = await get(file, { Range: 'bytes=0-5,7-11' })
    expect(several.headers['content-type']).toMatch(/^multipart\/byteranges; boundary=/)
    expect(several.text).toMatch(/\r\n\r\nexport\r\n[\s\S]*\r\n\r\nconst\r\n/)
    for (const range of ['bytes=0-', 'bytes=99999-', 'bytes=x', 'lines=1-2']) {
      const whole = await get(file, { Range: range })
      expect([whole.status, whole.text], range).toEqual([200, SCRIPT])
    }
  })

  it('answers HEAD without the file', async () => {
    const reply = await client().request('HEAD', file)
    expect([reply.status, reply.text, reply.headers['content-length']]).toEqual([200, '', String(SCRIPT.length)])
  })

  it('/favicon.ico is an icon', async () => {
    const reply = await get('/favicon.ico')
    expect([reply.status, reply.headers['content-type']]).toEqual([200, 'image/x-icon'])
    expect(reply.headers['cache-control']).toBe('public, max-age=31536000')
    expect(reply.body.readUInt32LE(0)).toBe(0x00010000)
  })

  it('does not count its files among the replies', async () => {
    const found = async () => (await get('/_stats/httpd_status_codes/404?flush=true')).text
    const before = await found()
    await get('/_utils/nosuch')
    expect(await found()).toBe(before)
  })

  it('a server without a built interface says so, and finds one that is built later', async () => {
    const interfaceDir = await temporaryFolder()
    const { url } = await startService({ interfaceDir })
    const other = new Client(url)
    const reply = await other.request('GET', '/_utils/')
    expect([reply.status, reply.headers['content-type']]).toEqual([503, 'text/html;charset=utf-8'])
    expect(reply.text).toContain('npm run build:ui')
    writeFileSync(join(interfaceDir, 'index.html'), PAGE)
    expect((await other.request('GET', '/_utils/')).text).toBe(PAGE)
    other.close()
  })
})

describe('GET /_up', () => {
  it('says that the server works', async () => {
    const reply = await get('/_up')
    expect([reply.status, reply.text]).toEqual([200, '{"status":"ok","seeds":{}}\n'])
  })
})
