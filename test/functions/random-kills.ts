/** Calls of many kinds, also such that wait behind each other, while sandbox processes are killed at random: each must be answered, and rightly. */
import type { Functions } from '../../src/functions/functions.ts'
import { until } from '../support/until.ts'
import { sandboxPids } from './sandbox-pids.ts'
import { designOf, mapsOf, rowsOf } from './test-functions.ts'

export interface KillReport {
  readonly kills: number
  readonly calls: number
  readonly wrong: number
  readonly failed: number
}

const LANES = 4

export async function killedAtRandom(functions: Functions, { kills }: { readonly kills: number }): Promise<KillReport> {
  const before = new Set(sandboxPids())
  const report = { kills: 0, calls: 0, wrong: 0, failed: 0 }
  const isOver = () => report.kills >= kills
  const lane = async (number: number) => {
    for (let call = 0; !isOver(); call++) {
      report.calls++
      const isRight = await rightly(functions, `owner ${number % 2}`, call).catch(() => {
        report.failed++
        return true
      })
      if (!isRight) report.wrong++
    }
  }
  const killer = async () => {
    while (!isOver()) {
      const answered = report.calls
      // Something must have gone on since the last one, so that calls are in all states.
      await until(() => report.calls >= answered + 3)
      const pids = sandboxPids().filter((pid) => !before.has(pid))
      const pid = pids[Math.floor(Math.random() * pids.length)]
      if (pid === undefined) continue
      process.kill(pid, 'SIGKILL')
      report.kills++
    }
  }
  await Promise.all([...Array.from({ length: LANES }, (_, number) => lane(number)), killer()])
  return report
}

const program = mapsOf('function(doc) { for (var i = 0; i < doc.n; i++) emit([doc.n, i], doc.n) }')
const design = designOf({
  filters: { odd: 'function(doc) { return doc.n % 2 === 1 }' },
  validate_doc_update: 'function(doc) { if (doc.n % 2) throw { forbidden: doc.n } }',
})

async function rightly(functions: Functions, owner: string, call: number): Promise<boolean> {
  const numbers = Array.from({ length: 20 }, (_, index) => index + call)
  const texts = numbers.map((n) => JSON.stringify({ n }))
  if (call % 3 === 0) {
    const batch = await functions.map(
      program,
      texts.map((text) => Buffer.from(text)),
      { owner },
    )
    const expected = numbers.flatMap((n) => Array.from({ length: n }, (_, index) => [n, index]))
    return JSON.stringify(rowsOf(batch).map(({ key }) => key)) === JSON.stringify(expected)
  }
  if (call % 3 === 1) {
    const passed = await functions.filter(design, 'odd', texts, '{}', { owner })
    return passed.every((hasPassed, index) => hasPassed === ((numbers[index] ?? 0) % 2 === 1))
  }
  const writes = texts.map((document) => ({ document, previous: null, user: '{}', security: '{}' }))
  const verdicts = await functions.validate(design, writes, { owner })
  return verdicts.every((verdict, index) => (verdict !== undefined) === ((numbers[index] ?? 0) % 2 === 1))
}
