/**
 * How fast sort keys are made and how long they are. Prints keys a second (best of several rounds) beside the speed of
 * `JSON.stringify` on the same values in the same run, so that machines can be compared.
 */
import {
  CollationEncoder,
  collationKey,
  collationVersion,
  rawCollationKey,
} from '../src/encoding/collation/collation-key.ts'
import { CollationTable } from '../src/encoding/collation/collation-table.ts'
import type { JsonValue } from '../src/encoding/json/json-value.ts'

const keysPerRound = 200_000
const rounds = 7

const english =
  'The quick brown fox jumps over the lazy dog, and in 1984 it was said that no one could be told what the Matrix is; ' +
  'all of us must see it for ourselves before the afternoon is over.'

const samples: [name: string, make: (i: number) => JsonValue][] = [
  ['ASCII text, 12 small letters', (i) => `abcdef${String(i % 1_000_000).padStart(6, '0')}`],
  ['ASCII text, capitals', (i) => `Hello World ${i % 1000}`],
  ['Latin text with accents', (i) => `Crème brûlée à ${i % 1000}`],
  ['Cyrillic text', (i) => `Привет мир ${i % 1000}`],
  ['Chinese text', (i) => `数据库索引排序${i % 1000}`],
  ['Hangul text', (i) => `데이터베이스 ${i % 1000}`],
  ['Thai text', (i) => `เรียงลำดับ ${i % 1000}`],
  ['decomposed Latin', (i) => `Cre\u0300me bru\u0302le\u0301e ${i % 1000}`],
  ['integers', (i) => i],
  ['["user", 2024, "x"]', (i) => ['user', 2024 + (i % 10), `x${i % 1000}`]],
  ['{"a": 1, "b": "c"}', (i) => ({ a: i, b: 'c' })],
]

console.log(`${collationVersion}, Node.js ${process.version}\n`)
console.log(`table loaded in ${tableLoadMs().toFixed(1)} ms (once, on the first text beyond ASCII)\n`)
console.log(
  `${'keys a second'.padEnd(32)}${'unicode'.padStart(12)}${'appended'.padStart(12)}${'raw'.padStart(12)}${'stringify'.padStart(12)}`,
)
for (const [name, make] of samples) {
  const values = Array.from({ length: 5000 }, (_, i) => make(i))
  const figures = [collationKey, appended(), rawCollationKey, JSON.stringify].map((encode) =>
    keysPerSecond(values, encode),
  )
  console.log(name.padEnd(32) + figures.map((figure) => Math.round(figure).toLocaleString('en').padStart(12)).join(''))
}
console.log()
for (const text of ['abcdefghijklmnopqrstuvwxyz', english, 'Crème brûlée à la façon de l’hôtel', '数据库索引排序']) {
  const bytes = collationKey(text).length
  console.log(`${(bytes / text.length).toFixed(2)} bytes a letter (${bytes} for ${text.length}): ${text.slice(0, 40)}`)
}

function keysPerSecond(values: JsonValue[], encode: (value: JsonValue) => unknown): number {
  let best = 0
  for (let round = 0; round < rounds; round++) {
    const start = performance.now()
    for (let i = 0; i < keysPerRound; i++) encode(values[i % values.length]!)
    best = Math.max(best, keysPerRound / ((performance.now() - start) / 1000))
  }
  return best
}

/** Keys written one after the other, copied out when there are many: what a builder of index rows does. */
function appended(): (value: JsonValue) => void {
  const encoder = new CollationEncoder()
  return (value) => {
    encoder.append(value)
    if (encoder.length < 65_536) return
    encoder.copy()
    encoder.clear()
  }
}

function tableLoadMs(): number {
  const start = performance.now()
  new CollationTable()
  return performance.now() - start
}
