/** The application from end to end, as its users reach it: by a host name of its own, or by its rewrite rules. */
import { beforeAll, describe, expect, it } from 'vitest'
import { type Reply, type RequestOptions, serverOfFile } from '../support/client.ts'
import { BLOG, STYLE } from './blog.ts'

const client = serverOfFile()

const as = (name: string, password = 'pass') => ({
  Authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`,
})

async function stored(method: string, path: string, body: unknown, headers = {}): Promise<Reply> {
  const reply = await client().request(method, path, { body, headers })
  expect(reply.status, `${path} ${reply.text}`).toBeLessThan(300)
  return reply
}

beforeAll(async () => {
  await stored('PUT', '/blog', undefined)
  const { rev } = await stored('PUT', '/blog/_design/blog', BLOG)
  await stored('PUT', `/blog/_design/blog/css/style.css?rev=${rev}`, STYLE, { 'Content-Type': 'text/css' })
  for (const name of ['ann', 'bob']) {
    const user = { name, password: 'pass', roles: [], type: 'user' }
    await stored('PUT', `/_users/org.service.user:${name}`, user)
  }
  await stored('PUT', '/_config/vhosts/blog.example.com', '"/blog/_design/blog/_rewrite"')
  await stored('PUT', '/_config/admins/root', '"top"')
})

/** By the host name that stands for the application. */
function visit(method: string, path: string, { headers = {}, body }: RequestOptions = {}): Promise<Reply> {
  return client().request(method, path, { headers: { Host: 'blog.example.com', ...headers }, body })
}

describe('the blog', () => {
  it('lets its writers write, and nobody in their place', async () => {
    const post = (title: string, date: string) => ({ title, text: `All about ${title} & more.`, date })
    const write = (id: string, name: string | undefined, body: object) =>
      visit('PUT', `/write/${id}`, { body, headers: name === undefined ? {} : as(name) })
    const first = await write('bread', 'ann', post('Bread', '2025-03-01'))
    expect([first.status, first.json]).toEqual([201, { ok: true, id: 'bread' }])
    expect(first.headers['x-service-update-newrev']).toMatch(/^1-/)
    expect((await write('cake', 'ann', post('Cake <&>', '2026-01-02'))).status).toBe(201)
    const again = await write('bread', 'ann', post('Bread', '2025-03-02'))
    expect(again.headers['x-service-update-newrev']).toMatch(/^2-/)
    const other = await write('bread', 'bob', post('Bread', '2025-03-02'))
    expect([other.status, other.json]).toEqual([403, { error: 'forbidden', reason: 'That is not yours.' }])
    const nobody = await write('soup', undefined, post('Soup', '2026-02-03'))
    expect([nobody.status, nobody.json]).toEqual([401, { error: 'unauthorized', reason: 'Please log in.' }])
  })

  it('has a page that lists its posts, newest first', async () => {
    const reply = await visit('GET', '/', { headers: { Accept: 'text/html' } })
    expect([reply.status, reply.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
    expect(reply.text).toContain('<title>The blog of the house</title>')
    expect([...reply.text.matchAll(/href=posts\/(\w+)>([^/]*)<\/a>/g)].map(([, id, title]) => [id, title])).toEqual([
      ['cake', 'Cake &lt;&amp;>'],
      ['bread', 'Bread'],
    ])
  })

  it('has a feed', async () => {
    const reply = await visit('GET', '/feed')
    expect([reply.headers['content-type'], reply.text]).toEqual([
      'application/atom+xml',
      '<feed><entry><title>Cake &lt;&amp;></title></entry><entry><title>Bread</title></entry></feed>',
    ])
  })

  it('has pages of posts, in the form that is asked for', async () => {
    const page = await visit('GET', '/posts/bread', { headers: { Accept: 'text/html' } })
    expect(page.text).toContain('<h1>Bread</h1>All about Bread &amp; more.')
    const data = await visit('GET', '/posts/bread', { headers: { Accept: 'application/json' } })
    expect(data.json).toEqual({ title: 'Bread', text: 'All about Bread & more.' })
    const { etag } = page.headers
    const known = await visit('GET', '/posts/bread', { headers: { Accept: 'text/html', 'If-None-Match': etag } })
    expect(known.status).toBe(304)
    const none = await visit('GET', '/posts/<nosuch>')
    expect([none.status, none.text.includes('There is no &lt;nosuch>')]).toEqual([404, true])
  })

  it('takes comments as a form, and lists them', async () => {
    const comment = (id: string, form: string) =>
      visit('POST', `/posts/${id}/comments`, {
        body: form,
        headers: { 'Content-Type': 'application/x-www-form-urlencoded', ...as('bob') },
      })
    const sent = await comment('bread', 'text=Very+g%C3%B6od&at=2')
    expect([sent.status, sent.headers.location]).toEqual([303, '../bread'])
    expect((await comment('bread', 'text=First&at=1')).status).toBe(303)
    expect((await comment('cake', 'text=Other&at=1')).status).toBe(303)
    expect((await comment('bread', 'text=&at=3')).status).toBe(403)
    expect((await comment('nosuch', 'text=x&at=1')).status).toBe(404)
    const listed = await visit('GET', '/posts/bread/comments')
    expect(listed.json).toEqual([
      { by: 'bob', text: 'First' },
      { by: 'bob', text: 'Very göod' },
    ])
  })

  it('serves its files, ranges of them too', async () => {
    const file = await visit('GET', '/static/css/style.css')
    expect([file.headers['content-type'], file.text]).toEqual(['text/css', STYLE])
    const part = await visit('GET', '/static/css/style.css', { headers: { Range: 'bytes=0-3' } })
    expect([part.status, part.text]).toEqual([206, 'body'])
    expect((await visit('GET', '/static/nosuch.css')).status).toBe(404)
  })

  it('leads to views and documents', async () => {
    const rows = (await visit('GET', '/since/2026')).as<{ rows: { id: string }[] }>().rows
    expect(rows.map(({ id }) => id)).toEqual(['cake'])
    expect((await visit('GET', '/api/bread')).json).toMatchObject({ _id: 'bread', by: 'ann' })
    expect((await visit('GET', '/api/_all_docs?limit=0')).json).toMatchObject({ rows: [] })
  })

  it('is the same without a host of its own', async () => {
    const reply = await client().request('GET', '/blog/_design/blog/_rewrite/posts/bread', {
      headers: { Accept: 'application/json' },
    })
    expect(reply.json).toEqual({ title: 'Bread', text: 'All about Bread & more.' })
  })

  it('knows nothing that its rules do not lead to', async () => {
    for (const path of ['/nosuch', '/_all_dbs', '/posts']) expect((await visit('GET', path)).status).toBe(404)
  })
})
