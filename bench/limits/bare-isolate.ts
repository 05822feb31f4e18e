/**
 * The limit of building a view: the same documents parsed and mapped in a bare isolate, on one core, and nothing done with
 * what they emit. Prints how many milliseconds all of them take, the middle one of a few rounds.
 */
import ivm from 'isolated-vm'
import { median } from '../comparison.ts'
import { documentId, documentMembers } from '../sample-documents.ts'

const ROUNDS = 3
/** Texts that lie where an isolate has its youngest: larger ones take longer. */
const PORTION = 100

const documents = Number(process.argv[2])
const sizeBytes = Number(process.argv[3])
const map = process.argv[4] ?? ''
const revision = `1-${'0123456789abcdef'.repeat(2)}`

const context = new ivm.Isolate({ memoryLimit: 512 }).createContextSync()
const mapAll = context.evalClosureSync(
  `
  let rows = 0
  let last
  const emit = (key, value) => { last = [key, value]; rows++ }
  const map = (${map})
  return (text) => {
    for (const document of JSON.parse(text)) map(document)
    return rows
  }`,
  [],
  { result: { reference: true } },
)
const portions = Array.from({ length: Math.ceil(documents / PORTION) }, (_, i) => portionFrom(i * PORTION))
const times = Array.from({ length: ROUNDS }, () => {
  const start = performance.now()
  for (const portion of portions) mapAll.applySync(undefined, [portion])
  return performance.now() - start
})
console.log(`${median(times)} ms`)

function portionFrom(first: number): string {
  const texts: string[] = []
  for (let number = first; number < Math.min(documents, first + PORTION); number++) {
    texts.push(`{"_id":"${documentId(number)}","_rev":"${revision}",${documentMembers(number, sizeBytes)}}`)
  }
  return `[${texts.join(',')}]`
}
