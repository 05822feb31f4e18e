/** Histories of one document that are refused, and those that look odd and are right. */
import { expect, it } from 'vitest'
import { Register } from './register.ts'

function problemsOf(play: (register: Register) => void): string[] {
  const problems: string[] = []
  play(new Register('d', problems))
  return problems
}

it('accepts an edit whose reply was lost, whether it has happened or not', () => {
  const play = (isWritten: boolean) => (register: Register) => {
    register.begin('a', undefined)
    register.acknowledge('a', '1-a')
    register.begin('lost', '1-a')
    register.see(1, { rev: '1-a', attempt: 'a' })
    if (isWritten) register.see(1, { rev: '2-lost', attempt: 'lost' })
    register.end(isWritten ? ['2-lost', '1-a'] : ['1-a'])
  }
  expect(problemsOf(play(true))).toEqual([])
  expect(problemsOf(play(false))).toEqual([])
})

it('accepts a read of an older state that began before the newer one was seen', () => {
  const problems = problemsOf((register) => {
    register.begin('a', undefined)
    const before = register.highest
    register.acknowledge('a', '1-a')
    register.see(before, undefined)
    register.end(['1-a'])
  })
  expect(problems).toEqual([])
})

const withFirst = (play: (register: Register) => void) => (register: Register) => {
  register.begin('a', undefined)
  register.acknowledge('a', '1-a')
  play(register)
}

it.each<[string, (register: Register) => void, string]>([
  ['an old state', withFirst((register) => register.see(1, undefined)), 'd was 0 after 1 was seen.'],
  [
    'an old state after a feed showed the newer one',
    withFirst((register) => {
      register.begin('b', '1-a')
      register.announce('2-b')
      register.see(register.highest, { rev: '1-a', attempt: 'a' })
    }),
    'd was 1 after 2 was seen.',
  ],
  [
    'two edits of one revision',
    withFirst((register) => {
      register.begin('b', '1-a')
      register.begin('c', '1-a')
      register.acknowledge('b', '2-b')
      register.acknowledge('c', '2-c')
    }),
    'd is 2-c, and was 2-b.',
  ],
  [
    'a refused edit that was written',
    withFirst((register) => {
      register.begin('b', '1-a')
      register.refuse('b')
      register.see(1, { rev: '2-b', attempt: 'b' })
    }),
    'd is 2-b, and b was refused.',
  ],
  [
    'a refusal without a cause',
    withFirst((register) => {
      register.begin('b', '1-a')
      register.refuse('b')
      register.end(['1-a'])
    }),
    'd refused b, and no other edit came first.',
  ],
  [
    'what nobody wrote',
    withFirst((register) => register.see(1, { rev: '2-x', attempt: 'x' })),
    'd is 2-x by x, and nobody wrote that.',
  ],
  [
    'an acknowledged edit that is lost',
    withFirst((register) => {
      register.begin('b', '1-a')
      register.acknowledge('b', '2-b')
      register.end(['1-a'])
    }),
    'd has lost 2-b.',
  ],
])('refuses %s', (_, play, problem) => {
  expect(problemsOf(play)).toContain(problem)
})
