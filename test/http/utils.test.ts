import { describe, expect, it } from 'vitest'
import { serverOfFile } from '../support/client.ts'

const client = serverOfFile()
const get = (path: string, headers: Record<string, string> = {}) => client().request('GET', path, { headers })

describe('what a browser finds', () => {
  it('/_utils leads to /_utils/', async () => {
    const reply = await get('/_utils')
    expect([reply.status, reply.headers.location]).toEqual([301, `http://${client().host}/_utils/`])
  })

  it('/_utils/ is a page that says what this is', async () => {
    for (const path of ['/_utils/', '/_utils/index.html']) {
      const reply = await get(path)
      expect([reply.status, reply.headers['content-type']]).toEqual([200, 'text/html;charset=utf-8'])
      expect(reply.headers['cache-control']).toBe('private, must-revalidate')
      expect(reply.text).toContain('Settle')
      const again = await get(path, { 'If-Modified-Since': reply.headers['last-modified'] ?? '' })
      expect([again.status, again.text]).toEqual([304, ''])
    }
  })

  it.each(['/_utils/nosuch', '/_utils/../package.json', '/_utils/%2e%2e%2fpackage.json', '/_utils/index.html/x'])(
    '%s is not there',
    async (path) => {
      const reply = await get(path)
      expect([reply.status, reply.headers['content-type'], reply.text]).toEqual([404, 'text/plain', 'Not found.'])
    },
  )

  it('/favicon.ico is an icon', async () => {
    const reply = await get('/favicon.ico')
    expect([reply.status, reply.headers['content-type']]).toEqual([200, 'image/x-icon'])
    expect(reply.headers['cache-control']).toBe('public, max-age=31536000')
    expect(reply.body.readUInt32LE(0)).toBe(0x00010000)
  })

  it('files are not counted among the replies', async () => {
    const found = async () => (await get('/_stats/httpd_status_codes/404?flush=true')).text
    const before = await found()
    await get('/_utils/nosuch')
    expect(await found()).toBe(before)
  })
})

describe('GET /_up', () => {
  it('says that the server works', async () => {
    const reply = await get('/_up')
    expect([reply.status, reply.text]).toEqual([200, '{"status":"ok","seeds":{}}\n'])
  })
})
