import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { responseAnswer } from '../../../src/http/design-functions/function-response.ts'

describe('the response of a function', () => {
  it.each([
    [{ body: 'text' }, 'text', 'text/html; charset=utf-8'],
    [{ base64: 'aGk=' }, 'hi', 'application/binary'],
    [{ json: { a: [1] } }, '{"a":[1]}\n', 'application/json'],
    [{ json: null }, 'null\n', 'application/json'],
    [{}, '', 'application/json'],
    [{ stop: true }, '', 'application/json'],
    [{ json: 1, body: 'x' }, '1\n', 'text/html; charset=utf-8'],
    [{ body: 'x', json: 1 }, '1\n', 'application/json'],
    [{ body: 'x', headers: { 'content-type': 'text/css' } }, 'x', 'text/css'],
    [{ body: 'x', headers: { 'Content-Type': 'text/css' } }, 'x', 'text/css'],
    [{ body: 7 }, '7', 'text/html; charset=utf-8'],
    [{ base64: '' }, '', 'application/binary'],
  ])('%j is %j of the type %s', (response, body, type) => {
    const answer = responseAnswer(response)
    expect([answer.status, answer.body.toString(), answer.headers['Content-Type']]).toEqual([200, body, type])
  })

  it('has the status that it names, or else the usual one', () => {
    expect(responseAnswer({ code: 418 }).status).toBe(418)
    expect(responseAnswer({ code: '302' }).status).toBe(302)
    expect(responseAnswer({}, { status: 201 }).status).toBe(201)
    expect(responseAnswer({ code: 404 }, { status: 201 }).status).toBe(404)
  })

  it.each([
    [{ surprise: 1 }, '{"surprise":1}'],
    [{ code: 'none' }, '{"code":"none"}'],
    [{ code: 101 }, '{"code":101}'],
    [{ code: 1e9 }, '{"code":1000000000}'],
    [{ headers: [] }, '{"headers":[]}'],
    [{ base64: '###' }, 'base64 cannot be decoded'],
    [{ base64: 'aGkaa' }, 'base64 cannot be decoded'],
    [{ base64: 7 }, 'base64 cannot be decoded'],
    [{ headers: { 'X-A': 'a\r\nX-B: b' } }, '{"X-A":"a\\r\\nX-B: b"}'],
    [{ headers: { 'X-A\r\nX-B': 'b' } }, '{"X-A\\r\\nX-B":"b"}'],
    [{ headers: { '': 'b' } }, '{"":"b"}'],
    [{ headers: { 'X-A': 'a\0' } }, '{"X-A":"a\\u0000"}'],
  ])('%j is refused', (response, told) => {
    expect(() => responseAnswer(response)).toThrow(
      `external_response_error: Invalid data from external server: ${told}`,
    )
  })

  it('is refused when its headers are too large', () => {
    const headers = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`X-${i}`, 'value']))
    expect(() => responseAnswer({ headers })).toThrow('headers are too long')
  })

  it('has headers as texts, and bytes of UTF-8 in them', () => {
    const { headers } = responseAnswer({ headers: { 'X-Number': 7, 'X-Object': { a: 1 }, 'X-Text': 'é' } })
    expect(headers).toMatchObject({ 'X-Number': '7', 'X-Object': '{"a":1}' })
    expect(Buffer.from(headers['X-Text'] ?? '', 'latin1').toString()).toBe('é')
  })

  it('cannot change how the reply is framed', () => {
    const framing = { 'Content-Length': '3', 'transfer-encoding': 'chunked', Connection: 'upgrade', Upgrade: 'x' }
    const headers = { ...framing, DATE: 'now', server: 'mine' }
    expect(Object.keys(responseAnswer({ body: 'text', headers }).headers)).toEqual([
      'Content-Type',
      'X-Content-Type-Options',
    ])
  })

  it('is overridden by fixed headers, and overrides default ones', () => {
    const { headers } = responseAnswer(
      { headers: { etag: 'mine', 'x-usual': 'mine' } },
      { fixed: { ETag: '"1"' }, usual: { 'X-Usual': 'theirs', 'X-Other': 'theirs' } },
    )
    expect(headers).toMatchObject({ ETag: '"1"', 'x-usual': 'mine', 'X-Other': 'theirs' })
    expect(Object.keys(headers).map((name) => name.toLowerCase())).toHaveLength(5)
  })

  it('never splits a header, whatever it contains', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (name, value) => {
        try {
          for (const [sentName, text] of Object.entries(responseAnswer({ headers: { [name]: value } }).headers)) {
            expect(sentName + text).not.toMatch(/[\r\n\0]/)
          }
        } catch (error) {
          expect(String(error)).toContain('external_response_error')
        }
      }),
    )
  })
})
