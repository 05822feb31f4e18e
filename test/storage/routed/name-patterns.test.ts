import { describe, expect, it } from 'vitest'
import { isNamePattern, NamePatterns } from '../../../src/storage/routed/name-patterns.ts'

function chosen(name: string, ...patterns: readonly string[]): string | undefined {
  return new NamePatterns(patterns.map((pattern) => [pattern, pattern] as const)).find(name)
}

describe('patterns of names', () => {
  it('match a name itself, and with * any text', () => {
    expect(chosen('orders', 'orders')).toBe('orders')
    expect(chosen('orders-1', 'orders')).toBeUndefined()
    expect(chosen('orders-1', 'orders-*')).toBe('orders-*')
    expect(chosen('orders-', 'orders-*')).toBe('orders-*')
    expect(chosen('orders', 'orders-*')).toBeUndefined()
    expect(chosen('teams/a/log', 'teams/*/log')).toBe('teams/*/log')
    expect(chosen('teams/a/b/log', 'teams/*/log')).toBe('teams/*/log')
    expect(chosen('a-log', '*-log')).toBe('*-log')
    expect(chosen('anything', '*')).toBe('*')
    expect(chosen('abcabc', 'a*b*c')).toBe('a*b*c')
  })

  it('use no character of a name twice', () => {
    expect(chosen('aba', 'ab*ba')).toBeUndefined()
    expect(chosen('abba', 'ab*ba')).toBe('ab*ba')
    expect(chosen('axb', 'a*x*xb')).toBeUndefined()
    expect(chosen('axxb', 'a*x*xb')).toBe('a*x*xb')
  })

  it('have no special characters but *', () => {
    expect(chosen('a1', 'a+')).toBeUndefined()
    expect(chosen('a+', 'a+')).toBe('a+')
    expect(chosen('a(b)c', 'a(*)*')).toBe('a(*)*')
    expect(chosen('ab', 'a$*')).toBeUndefined()
  })

  it('give way to the more specific one, in whatever order they come', () => {
    const patterns = ['*', 'orders-*', 'orders-*-old', 'orders-eu-*', 'orders-eu-1', '*-eu-1']
    for (const given of [patterns, patterns.toReversed()]) {
      expect(chosen('orders-eu-1', ...given)).toBe('orders-eu-1')
      expect(chosen('orders-eu-2', ...given)).toBe('orders-eu-*')
      // The longest text before the first * counts first.
      expect(chosen('orders-eu-old', ...given)).toBe('orders-eu-*')
      expect(chosen('orders-us-old', ...given)).toBe('orders-*-old')
      expect(chosen('orders-us', ...given)).toBe('orders-*')
      expect(chosen('other-eu-1', ...given)).toBe('*-eu-1')
      expect(chosen('other', ...given)).toBe('*')
    }
    expect(chosen('aa', '*a', 'a*')).toBe('a*')
    expect(chosen('abc', 'a*b*', 'a*bc')).toBe('a*bc')
  })

  it('match a system database only by its very name', () => {
    expect(chosen('_users', '*', '_*', '_user*')).toBeUndefined()
    expect(chosen('_users', '*', '_users')).toBe('_users')
  })

  it('take long names with many wildcards in little time', () => {
    const pattern = 'a*'.repeat(400)
    const begun = process.cpuUsage()
    expect(chosen(`${'a'.repeat(999)}b`, `${pattern}c`)).toBeUndefined()
    const { user, system } = process.cpuUsage(begun)
    expect(user + system).toBeLessThan(1_000_000)
  })

  it('have only characters of names', () => {
    for (const pattern of ['a', 'a-*', '*', '_users', 'a/b$(c)+*', '0']) expect(isNamePattern(pattern)).toBe(true)
    for (const pattern of ['', 'A', 'a b', 'a.b', 'a?', '[a]', 'ä', 'a'.repeat(1001)]) {
      expect(isNamePattern(pattern)).toBe(false)
    }
  })
})
