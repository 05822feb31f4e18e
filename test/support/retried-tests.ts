/**
 * A reporter that prints the errors of tests which passed only when they were run again. Without it the message of the first
 * attempt, often the only trace of a race, is lost.
 */
import { stripVTControlCharacters } from 'node:util'
import type { TestError } from 'vitest'
import type { Reporter, TestCase } from 'vitest/node'

interface RetriedTest {
  readonly title: string
  readonly errors: readonly TestError[]
}

export class RetriedTests implements Reporter {
  readonly #retried: RetriedTest[] = []

  onTestCaseResult(test: TestCase): void {
    const { state, errors = [] } = test.result()
    if (state !== 'passed' || errors.length === 0) return
    const place = `${test.project.name} ${test.module.relativeModuleId}`
    this.#retried.push({ title: `${place} > ${test.fullName}`, errors })
  }

  onTestRunEnd(): void {
    if (this.#retried.length === 0) return
    const tests = this.#retried.map(({ title, errors }) => [title, ...errors.map(describeError)].join('\n'))
    console.error(`\nPassed only when run again:\n\n${tests.join('\n\n')}\n`)
  }
}

/** The message, the values where it is an assertion that compares, and which lines of the project threw it. */
function describeError({ name, message, stack = '', diff }: TestError): string {
  const frames = stack.split('\n').filter((line) => /^\s+at /.test(line) && !line.includes('node_modules'))
  const text = [`${name}: ${message}`, ...(diff === undefined ? [] : [diff]), ...frames].join('\n')
  return stripVTControlCharacters(text).replaceAll(/^/gm, '  ')
}
