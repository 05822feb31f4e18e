import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { decodeBase64 } from '../../../src/encoding/json/base64-text.ts'

it('gives back what was encoded, with padding or without', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 50 }), (content) => {
      const bytes = Buffer.from(content)
      const text = bytes.toString('base64')
      expect(decodeBase64(text)).toEqual(bytes)
      expect(decodeBase64(text.replaceAll('=', ''))).toEqual(bytes)
      expect(decodeBase64([...text].join('\r\n\t '))).toEqual(bytes)
    }),
  )
})

it.each([
  '=',
  '==',
  '====',
  'A',
  'A===',
  'QQ=',
  'QUJD=',
  'QUJD==',
  'QQ==QQ==',
  'QR==',
  'QUF=',
  'QU-_',
  'QU.C',
  'QU\u0000C',
  'QQ=='.repeat(2),
])('refuses %j', (text) => {
  expect(decodeBase64(text)).toBeUndefined()
})

it('takes time that is linear in the text', () => {
  const { user: before } = process.cpuUsage()
  expect(decodeBase64(`${'='.repeat(2_000_000)}A`)).toBeUndefined()
  expect(decodeBase64(' '.repeat(2_000_000))).toHaveLength(0)
  // Quadratic time would be hours.
  expect(process.cpuUsage().user - before).toBeLessThan(2_000_000)
})
