import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ageOf, makeToken, provenTime, setCookie, tokenOf } from '../../../src/auth/passwords/session-cookie.ts'

const KEY = { secret: 'secret', salt: 'salt' }
const NOW = 0x51a9e4d0
const AT_ONCE = { nowSeconds: NOW, timeoutSeconds: 600 }

function claimed(token: string) {
  return tokenOf(`AuthSession=${token}`)
}

function isValid(token: string, key = KEY, when = AT_ONCE): boolean {
  const claim = claimed(token)
  const madeSeconds = claim && provenTime(claim, key)
  return madeSeconds !== undefined && ageOf(madeSeconds, when) !== 'over'
}

describe('a session token', () => {
  it('is name, time and a mac over both, keyed with the secret and the salt', () => {
    const mac = createHmac('sha1', 'secretsalt').update('bob:51A9E4D0').digest()
    expect(makeToken('bob', NOW, KEY)).toBe(Buffer.concat([Buffer.from('bob:51A9E4D0:'), mac]).toString('base64url'))
  })

  it('is valid for any name until its time is over', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.nat(2 ** 31), (text, now) => {
        const name = text.replaceAll(':', '')
        const token = makeToken(name, now, KEY)
        expect(claimed(token)?.name).toBe(name)
        expect(isValid(token, KEY, { nowSeconds: now + 599, timeoutSeconds: 600 })).toBe(true)
        expect(isValid(token, KEY, { nowSeconds: now + 600, timeoutSeconds: 600 })).toBe(false)
      }),
    )
  })

  it('is not valid with another secret or salt', () => {
    const token = makeToken('bob', NOW, KEY)
    expect(isValid(token, { ...KEY, secret: 'other' })).toBe(false)
    expect(isValid(token, { ...KEY, salt: 'other' })).toBe(false)
  })

  it('is not valid with any of its bits turned over', () => {
    const bytes = Buffer.from(makeToken('bob', NOW, KEY), 'base64url')
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const forged = Buffer.from(bytes)
      forged[bit >> 3]! ^= 1 << (bit & 7)
      const outcome = () => isValid(forged.toString('base64url'))
      // Without its colons it is malformed; otherwise it is none that we made.
      try {
        expect(outcome()).toBe(false)
      } catch (error) {
        expect(String(error)).toContain('Malformed AuthSession cookie')
      }
    }
  })

  it('is not valid cut short or lengthened', () => {
    const bytes = Buffer.from(makeToken('bob', NOW, KEY), 'base64url')
    for (let length = 'bob:51A9E4D0:'.length; length < bytes.length; length++) {
      expect(isValid(bytes.subarray(0, length).toString('base64url'))).toBe(false)
    }
    expect(isValid(Buffer.concat([bytes, Buffer.of(0)]).toString('base64url'))).toBe(false)
  })

  it.each(['bob:zz:', 'bob::', 'bob:-1:', 'bob:0x51:', `bob:${'F'.repeat(13)}:`, ':1:'])(
    'is not valid with the time of %s',
    (text) => {
      const [name, time] = text.split(':')
      const mac = createHmac('sha1', 'secretsalt').update(`${name}:${time}`).digest()
      expect(isValid(Buffer.concat([Buffer.from(text), mac]).toString('base64url'))).toBe(false)
    },
  )

  it('may have colons in its mac', () => {
    for (let now = NOW; now < NOW + 500; now++) {
      expect(isValid(makeToken('bob', now, KEY), KEY, { nowSeconds: now, timeoutSeconds: 1 })).toBe(true)
    }
  })

  it('is over where it was made while the clock was far ahead', () => {
    const age = (aheadSeconds: number) => ageOf(NOW + aheadSeconds, { nowSeconds: NOW, timeoutSeconds: 600 })
    expect([0, 60, 600, 601, 86_400].map(age)).toEqual(['valid', 'valid', 'valid', 'over', 'over'])
  })

  it('is renewed from the first tenth of its life on', () => {
    const age = (seconds: number) => ageOf(NOW, { nowSeconds: NOW + seconds, timeoutSeconds: 600 })
    expect([0, 60, 61, 599, 600].map(age)).toEqual(['valid', 'valid', 'renewal due', 'renewal due', 'over'])
  })
})

describe('the header of a cookie', () => {
  const token = makeToken('bob', NOW, KEY)

  it.each([
    [`AuthSession=${token}`],
    [`AuthSession="${token}"`],
    [`a=b; AuthSession=${token}; c=d`],
    [`a=b;AuthSession=${token}`],
    [`XAuthSession=no; AuthSession=${token}`],
  ])('is searched for the session: %s', (header) => {
    expect(tokenOf(header)?.name).toBe('bob')
  })

  it.each([[undefined], [''], ['a=b'], ['AuthSession='], ['AuthSession=""'], ['AuthSession'], ['authsession=x']])(
    'has none: %s',
    (header) => {
      expect(tokenOf(header)).toBeUndefined()
    },
  )

  it.each(['x', 'Ym9i', 'Ym9iOjE', '%%%', 'Ym9iOjE6eA!', 'YTpi OmM', '====', 'Ym9i\u00e9'])(
    'is malformed when nobody here made it: %s',
    (value) => {
      expect(() => claimed(value)).toThrow('Malformed AuthSession cookie. Please clear your cookies.')
    },
  )

  it('never throws anything else', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (value) => {
        try {
          tokenOf(`AuthSession=${value}`)
        } catch (error) {
          expect(error).toMatchObject({ kind: 'invalid', error: 'bad_request' })
        }
      }),
    )
  })
})

describe('the cookie that is set', () => {
  const plain = { isSecure: false, sameSite: undefined }

  it('has the attributes of the interface', () => {
    expect(setCookie('abc', plain)).toBe('AuthSession=abc; Version=1; Path=/; HttpOnly')
  })

  it('is marked on an encrypted connection', () => {
    expect(setCookie('abc', { ...plain, isSecure: true })).toBe('AuthSession=abc; Version=1; Secure; Path=/; HttpOnly')
  })

  it('outlives the browser where that is allowed', () => {
    const lasting = { nowSeconds: 784_111_777, timeoutSeconds: 600 }
    expect(setCookie('abc', { ...plain, lasting })).toBe(
      'AuthSession=abc; Version=1; Expires=Sun, 06-Nov-1994 08:59:37 GMT; Max-Age=600; Path=/; HttpOnly',
    )
  })

  it('keeps to one site where that is asked for', () => {
    expect(setCookie('abc', { ...plain, sameSite: 'Strict' })).toBe(
      'AuthSession=abc; Version=1; Path=/; HttpOnly; SameSite=Strict',
    )
  })

  it('is taken away by an empty one', () => {
    const lasting = { nowSeconds: 1, timeoutSeconds: 600 }
    expect(setCookie('', { isSecure: true, sameSite: undefined, lasting })).toBe(
      'AuthSession=; Version=1; Secure; Path=/; HttpOnly',
    )
  })
})
