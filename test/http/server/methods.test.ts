import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

function methodsOf(list: string | undefined): string[] {
  return (list ?? '').split(',').sort()
}

describe('a method that a path does not have', () => {
  it.each([
    ['', 'PATCH', ['DELETE', 'GET', 'HEAD', 'POST', 'PUT']],
    ['', 'COPY', ['DELETE', 'GET', 'HEAD', 'POST', 'PUT']],
    ['doc', 'PATCH', ['COPY', 'DELETE', 'GET', 'HEAD', 'POST', 'PUT']],
    ['_design/x', 'PATCH', ['COPY', 'DELETE', 'GET', 'HEAD', 'POST', 'PUT']],
    ['_local/x', 'PATCH', ['COPY', 'DELETE', 'GET', 'HEAD', 'POST', 'PUT']],
    ['_all_docs', 'PUT', ['GET', 'HEAD', 'POST']],
    ['_all_docs', 'DELETE', ['GET', 'HEAD', 'POST']],
    ['_bulk_docs', 'GET', ['POST']],
    ['_bulk_docs', 'PUT', ['POST']],
    ['_purge', 'GET', ['POST']],
    ['_missing_revs', 'GET', ['POST']],
    ['_revs_diff', 'GET', ['POST']],
    ['_ensure_full_commit', 'GET', ['POST']],
    ['_compact', 'GET', ['POST']],
    ['_revs_limit', 'POST', ['GET', 'PUT']],
    ['_revs_limit', 'DELETE', ['GET', 'PUT']],
    ['_security', 'POST', ['GET', 'PUT']],
  ])('/{db}/%s refuses %s with the list of those that it has', async (path, method, methods) => {
    const db = await client().database()
    const reply = await db.request(method, path)
    const allow = reply.headers.allow
    expectRefusal(reply, 405, 'method_not_allowed', `Only ${allow} allowed`)
    // HEAD goes wherever GET goes; whether a list names it is not the same for all paths.
    expect(methodsOf(allow).filter((name) => name !== 'HEAD')).toEqual(methods.filter((name) => name !== 'HEAD'))
    expect(allow).not.toContain(' ')
  })

  it.each(['', 'doc', '_all_docs'])('/{db}/%s names HEAD among them', async (path) => {
    const db = await client().database()
    expect(methodsOf((await db.request('PATCH', path)).headers.allow)).toContain('HEAD')
  })

  it('is refused without a body, for HEAD of a resource without GET', async () => {
    const db = await client().database()
    const reply = await db.head('_bulk_docs')
    expect([reply.status, reply.headers.allow, reply.text]).toEqual([405, 'POST', ''])
  })

  it.each(['BREW', 'get', 'x-custom'])('is refused when no route has it: %s', async (method) => {
    const received = await client().exchange(`${method} / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc`)
    expect(received).toMatch(/^HTTP\/1\.1 405 [\s\S]*\r\nConnection: close\r\n/)
    expect(received).toContain('\r\nAllow: GET,HEAD,POST,PUT,DELETE,COPY\r\n')
    const reason = 'Only GET,HEAD,POST,PUT,DELETE,COPY allowed'
    expect(received.split('\r\n\r\n')[1]).toBe(`${JSON.stringify({ error: 'method_not_allowed', reason })}\n`)
  })
})
