import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { namesJson } from '../../../src/http/negotiation/acceptance.ts'
import { maskedUrl } from '../../../src/http/server/request-log.ts'

describe('the Accept header', () => {
  it.each([
    'application/json',
    'text/html, application/json',
    'text/html;q=0.5,Application/JSON;q=0.1',
    'application/json ; charset=utf-8',
    'application/json;q=0.01',
    'application/json;q=0, application/json',
    'text/html application/json',
  ])('names JSON in %j', (accept) => expect(namesJson(accept)).toBe(true))

  it.each([
    '',
    '*/*',
    'text/html',
    'application/json;q=0',
    'application/json ; q=0.000 ,text/html',
    'application/json;q=0;x=1',
    'application/json+x',
    'xapplication/json',
  ])('does not name JSON in %j', (accept) => expect(namesJson(accept)).toBe(false))

  it('is parsed as by a regular expression', () => {
    const pattern = /(^|[,\s])application\/json\s*(?!\s*;\s*q=0(\.0*)?\s*(,|;|$))(;|,|\s|$)/i
    const part = fc.constantFrom('application/json', ';', ',', ' ', 'q=0', '.', '0', 'x', 'q=', 'text/html')
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
        const accept = parts.join('')
        expect(namesJson(accept)).toBe(pattern.test(accept))
      }),
      { numRuns: 2000 },
    )
  })
})

describe('the target in the log', () => {
  it('is masked as by regular expressions', () => {
    const parameter = /([?&][^=&]*(?:token|secret|password|signature|callback_confirmed)[^=&]*=)[^&]*/gi
    const credentials = /(:\/\/|%3A%2F%2F)[^/@]*?(@|%40)/gi
    const part = fc.constantFrom('/', '?', '&', '=', 'Token', 'x', '@', '%40', '://', '%3a%2F%2f', 'password', ':')
    fc.assert(
      fc.property(fc.array(part, { maxLength: 14 }), (parts) => {
        const url = `/db?${parts.join('')}`
        expect(maskedUrl(url)).toBe(url.replace(parameter, '$1…').replace(credentials, '$1…$2'))
      }),
      { numRuns: 5000 },
    )
  })
})

it('takes time that is linear in what was sent', () => {
  const { user: before } = process.cpuUsage()
  const size = 1_000_000
  expect(namesJson(`application/json${' '.repeat(size)}`)).toBe(true)
  expect(namesJson(`application/json;${' '.repeat(size)}q=0`)).toBe(false)
  expect(namesJson(`application/json;q=0,`.repeat(size / 20))).toBe(false)
  expect(maskedUrl(`/?${'token'.repeat(size / 5)}`)).toHaveLength(size + 2)
  expect(maskedUrl(`/?${'?token'.repeat(size / 5)}`)).toHaveLength(6 * (size / 5) + 2)
  expect(maskedUrl(`/?${'%3A%2F%2F'.repeat(size / 9)}`).length).toBeGreaterThan(size - 10)
  expect(process.cpuUsage().user - before).toBeLessThan(5_000_000)
})
