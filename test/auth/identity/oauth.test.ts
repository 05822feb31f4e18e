import { describe, expect, it } from 'vitest'
import { baseString, expectedSignature, isRightlySigned, signedRequest } from '../../../src/auth/identity/oauth.ts'
import { threadMs } from '../../support/processor-time.ts'
import { request } from '../test-auth.ts'

const FORWARDED = { host: 'x-forwarded-host', ssl: 'x-forwarded-ssl', proto: 'x-forwarded-proto' }
const SECRETS = { consumer: 'kd94hf93k423kf44', token: 'pfkkdhi9sl3r4s00', user: 'ann' }

function header(parameters: Record<string, string>): { authorization: string } {
  const list = Object.entries(parameters).map(([name, value]) => `${name}="${encodeURIComponent(value)}"`)
  return { authorization: `OAuth ${list.join(', ')}` }
}

const SPECIFIED = {
  realm: 'http://photos.example.net/',
  oauth_consumer_key: 'dpf43f3p2l4k3l03',
  oauth_token: 'nnch734d00sl2jdk',
  oauth_signature_method: 'HMAC-SHA1',
  oauth_signature: 'tR3+Ty81lMeYAr/Fid0kMTYa/WM=',
  oauth_timestamp: '1191242096',
  oauth_nonce: 'kllo9940pd9333jh',
  oauth_version: '1.0',
}
const PHOTOS = { url: '/photos?file=vacation.jpg&size=original' }

describe('a signed request', () => {
  it('is verified as the specification of OAuth shows it', () => {
    const signed = signedRequest(request({ host: 'photos.example.net', ...header(SPECIFIED) }, PHOTOS), FORWARDED)
    expect(signed?.baseString).toBe(
      'GET&http%3A%2F%2Fphotos.example.net%2Fphotos&file%3Dvacation.jpg%26oauth_consumer_key%3Ddpf43f3p2l4k3l03' +
        '%26oauth_nonce%3Dkllo9940pd9333jh%26oauth_signature_method%3DHMAC-SHA1%26oauth_timestamp%3D1191242096' +
        '%26oauth_token%3Dnnch734d00sl2jdk%26oauth_version%3D1.0%26size%3Doriginal',
    )
    expect(signed && isRightlySigned(signed, SECRETS)).toBe(true)
  })

  it('is verified as RFC 5849 shows it', () => {
    const { oauth_version: _, ...parameters } = {
      ...SPECIFIED,
      oauth_timestamp: '137131202',
      oauth_nonce: 'chapoH',
      oauth_signature: 'MdpQcU8iPSUjWoN/UDMsK2sui9I=',
    }
    const signed = signedRequest(request({ host: 'PHOTOS.example.net:80', ...header(parameters) }, PHOTOS), FORWARDED)
    expect(signed && isRightlySigned(signed, SECRETS)).toBe(true)
  })

  it('may have its parameters in the query', () => {
    const query = new URLSearchParams({ file: 'vacation.jpg', size: 'original', ...SPECIFIED })
    query.delete('realm')
    const signed = signedRequest(request({ host: 'photos.example.net' }, { url: `/photos?${query}` }), FORWARDED)
    expect(signed && isRightlySigned(signed, SECRETS)).toBe(true)
  })

  it.each([
    ['another method', { method: 'HEAD' }, {}, SECRETS],
    ['another path', { url: '/photo?file=vacation.jpg&size=original' }, {}, SECRETS],
    ['another query', { url: '/photos?file=vacation.jpg&size=small' }, {}, SECRETS],
    ['another host', {}, { host: 'example.net' }, SECRETS],
    ['another port', {}, { host: 'photos.example.net:8080' }, SECRETS],
    ['an encrypted connection', { isSecure: true }, {}, SECRETS],
    ['another consumer secret', {}, {}, { ...SECRETS, consumer: 'x' }],
    ['another token secret', {}, {}, { ...SECRETS, token: 'x' }],
    ['no signature', {}, header({ ...SPECIFIED, oauth_signature: '' }), SECRETS],
  ])('is not verified with %s', (_, target, headers, secrets) => {
    const sent = request({ host: 'photos.example.net', ...header(SPECIFIED), ...headers }, { ...PHOTOS, ...target })
    const signed = signedRequest(sent, FORWARDED)
    expect(signed && isRightlySigned(signed, secrets)).toBe(false)
  })

  it('is signed for the address that a proxy was asked for', () => {
    const sent = request({
      host: '10.0.0.1:5984',
      'x-forwarded-host': 'db.example.net',
      'x-forwarded-proto': 'https',
      ...header({ oauth_consumer_key: 'c' }),
    })
    expect(signedRequest(sent, FORWARDED)?.baseString).toContain('GET&https%3A%2F%2Fdb.example.net%2F&')
  })

  it('may be signed with the secrets themselves', () => {
    const signed = signedRequest(
      request(header({ oauth_consumer_key: 'c', oauth_signature_method: 'PLAINTEXT', oauth_signature: 'a%26&b%20c' })),
      FORWARDED,
    )
    expect(signed && isRightlySigned(signed, { consumer: 'a&', token: 'b c', user: 'ann' })).toBe(true)
  })

  it('is refused in any other way of signing', () => {
    const signed = signedRequest(
      request(header({ oauth_consumer_key: 'c', oauth_signature_method: 'RSA-SHA1', oauth_signature: 'x' })),
      FORWARDED,
    )
    expect(() => signed && isRightlySigned(signed, SECRETS)).toThrow('invalid_signature')
  })

  it('is refused in another version', () => {
    const sent = request(header({ oauth_version: '2.0' }))
    expect(() => signedRequest(sent, FORWARDED)).toThrow('invalid_oauth_version: Invalid OAuth version.')
  })

  it.each([
    [{}],
    [{ authorization: 'Basic eDp5' }],
    [{ authorization: 'OAuth' }],
    [{ authorization: 'OAuth realm="x"' }],
  ])('is not what %j makes', (headers) => {
    expect(signedRequest(request(headers, { url: '/?a=b' }), FORWARDED)).toBeUndefined()
  })

  it.each(['OAuth ,,,="', 'oauth oauth_consumer_key="%zz"', 'OAuth a="b', 'OAuth =""', 'OAuth ="'])(
    'does not stumble over %s',
    (authorization) => {
      expect(() => signedRequest(request({ authorization }, { url: '/?%zz=%&&=&x' }), FORWARDED)).not.toThrow()
    },
  )

  it.each(['a', ' ', ',', '"', '=', 'a="', ' ,', '\t='])('parses 60 KB of %j in linear time', (text) => {
    const authorization = `OAuth ${text.repeat(60_000 / text.length)}`
    const long = request({ authorization, host: text.repeat(1_000) }, { url: `/?${text.repeat(8_000)}` })
    expect(threadMs(() => signedRequest(long, FORWARDED))).toBeLessThan(1_000)
  })
})

describe('the base string', () => {
  it('has parameters in the order of their encoded names and values', () => {
    const parameters = [
      ['b', '2'],
      ['a!', 'x y'],
      ['b', '1'],
      ['a', '*~-._'],
      ['ä', ''],
      ['realm', 'r'],
      ['oauth_signature', 's'],
    ] as const
    expect(decodeURIComponent(baseString('get', 'http://h/', parameters).slice('GET&http%3A%2F%2Fh%2F&'.length))).toBe(
      '%C3%A4=&a=%2A~-._&a%21=x%20y&b=1&b=2',
    )
  })

  it('is signed with both secrets encoded', () => {
    expect(expectedSignature({ method: 'PLAINTEXT', baseString: '' }, { consumer: 'a/b', token: '' })).toBe('a%2Fb&')
  })
})
