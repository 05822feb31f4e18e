/**
 * How fast a small document is taken in: one scan that gives the stored text and the revision id, beside what it replaces,
 * JSON.parse and JSON.stringify, each with an MD5 over what it made. Run: node bench/json-text.ts
 */
import { hash } from 'node:crypto'
import { JsonReader, scanDocument } from '../src/encoding/json/json-text.ts'

const ROUND_MS = 300
const ROUNDS = 12

const compact = Array.from({ length: 1000 }, (_, index) => Buffer.from(JSON.stringify(documentNumber(index))))
const indented = Array.from({ length: 1000 }, (_, index) => {
  return Buffer.from(JSON.stringify(documentNumber(index), undefined, 2))
})
const bulk = Buffer.from(`{"docs":[${compact.join(',')}],"new_edits":false}`)

/** Each takes in a thousand documents. The first of a group is what the others are compared with. */
const groups = {
  [`compact, ${sizeBytes(compact)} bytes`]: {
    'JSON.parse + JSON.stringify + MD5': () => compact.forEach(parseAndStringify),
    'scan + MD5': () => compact.forEach(scan),
    'scan + MD5, as one bulk request': scanBulk,
    'scan alone': () => compact.forEach(scanDocument),
  },
  [`indented, ${sizeBytes(indented)} bytes`]: {
    'JSON.parse + JSON.stringify + MD5': () => indented.forEach(parseAndStringify),
    'scan + MD5': () => indented.forEach(scan),
    'scan alone': () => indented.forEach(scanDocument),
  },
}

for (const [group, cases] of Object.entries(groups)) {
  console.log(`\n${group}, documents a second, best of ${ROUNDS} rounds of ${ROUND_MS} ms`)
  const best = new Map<string, number>()
  // In turns, so that whatever else the machine does hits all of them.
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, work] of Object.entries(cases)) best.set(name, Math.max(best.get(name) ?? 0, measure(work)))
  }
  const [peer] = best.values()
  for (const [name, rate] of best) {
    const figure = Math.round(rate).toLocaleString('en').padStart(9)
    console.log(`  ${name.padEnd(36)}${figure}  ${(rate / peer!).toFixed(2)}x`)
  }
}

function documentNumber(index: number): unknown {
  return {
    _id: `order:${String(index).padStart(8, '0')}`,
    type: 'order',
    customer: { name: `Customer ${index}`, city: 'Zürich', vip: index % 7 === 0 },
    lines: [
      { sku: `A-${index % 100}`, quantity: (index % 9) + 1, price: (index % 1000) / 100 + 0.05 },
      { sku: `B-${index % 50}`, quantity: 300, price: 12.5 },
    ],
    created: '2024-05-17T12:34:56.789Z',
    note: 'leave at the door, ring twice',
    tags: [1, 2, 3],
    total: index * 17,
    cancelled: null,
  }
}

function parseAndStringify(text: Buffer): void {
  const { _id, ...body } = JSON.parse(text.toString())
  hash('md5', JSON.stringify(body), 'hex')
}

function scan(text: Buffer): void {
  hash('md5', scanDocument(text).term, 'hex')
}

function scanBulk(): void {
  const reader = new JsonReader(bulk)
  for (const name of reader.members()) {
    if (name !== 'docs') continue
    for (const _ of reader.elements()) hash('md5', reader.document().term, 'hex')
  }
  reader.end()
}

function measure(work: () => void): number {
  const start = performance.now()
  let documents = 0
  while (performance.now() - start < ROUND_MS) {
    work()
    documents += compact.length
  }
  return (documents / (performance.now() - start)) * 1000
}

function sizeBytes(texts: readonly Buffer[]): number {
  return Math.round(texts.reduce((sum, text) => sum + text.length, 0) / texts.length)
}
