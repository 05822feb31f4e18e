/**
 * Fails for every regular expression of `src/` that is not proven to take linear time: whoever sends the text decides how
 * long it is, and a quadratic pattern over a header of 60 KB stops the server for seconds. Those that never see what
 * clients send are listed below, each with the reason.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
// Below vitest.
import { parseAst } from 'vite'

/** By file and pattern. An entry that nothing needs any more fails too. */
const ALLOWED = [
  {
    file: 'config/setting-sources.ts',
    pattern: '^SETTLE_([A-Z0-9_]+?)__([A-Z0-9_]+)$',
    reason: 'names of the environment',
  },
  {
    file: 'functions/sandbox/link-modules.ts',
    pattern: '*',
    reason: 'sources of the server itself, once at the start',
  },
  { file: 'selectors/pattern/character-sets.ts', pattern: '*', reason: 'a property of one character' },
  { file: 'functions/realm/thrown.ts', pattern: '*', reason: 'in a sandbox process, below its time limit' },
]

// The backend that needs neither Java nor a program of the platform.
process.env.RECHECK_BACKEND = 'pure'
const TIMEOUT_MS = 20_000
const ROOT = 'src'
/** Patterns that were proven before: a proof takes up to a second. */
const CACHE_FOLDER = 'node_modules/.cache'
const CACHE_FILE = join(CACHE_FOLDER, 'settle-linear-regexes.json')
const proven = new Set(provenBefore())

const checkSync = await loadChecker()
if (checkSync) run(checkSync)

async function loadChecker() {
  try {
    return (await import('recheck')).default.checkSync
  } catch (error) {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
    console.warn('recheck is not installed (npm install): regular expressions were not checked.')
    return undefined
  }
}

function provenBefore() {
  try {
    return JSON.parse(readFileSync(CACHE_FILE, 'utf8'))
  } catch {
    return []
  }
}

function run(check) {
  const needed = new Set()
  const problems = []
  for (const file of readdirSync(ROOT, { recursive: true }).filter((name) => name.endsWith('.ts'))) {
    const text = readFileSync(join(ROOT, file), 'utf8')
    for (const { pattern, flags, start } of regexesOf(text)) {
      const allowed = ALLOWED.find((each) => each.file === file && (each.pattern === '*' || each.pattern === pattern))
      if (allowed) {
        needed.add(allowed)
        continue
      }
      const problem = pattern === undefined ? 'is made at run time' : problemOf(check, pattern, flags)
      if (problem) {
        const line = text.slice(0, start).split('\n').length
        problems.push(`${join(ROOT, file)}:${line} /${pattern ?? '…'}/${flags} ${problem}`)
      }
    }
  }
  for (const each of ALLOWED) if (!needed.has(each)) problems.push(`${each.file} ${each.pattern} need not be allowed.`)
  for (const problem of problems) console.error(problem)
  mkdirSync(CACHE_FOLDER, { recursive: true })
  writeFileSync(CACHE_FILE, JSON.stringify([...proven]))
  process.exitCode = problems.length > 0 ? 1 : 0
}

/** What keeps a pattern from being taken, or undefined. */
function problemOf(check, pattern, flags) {
  const name = `/${pattern}/${flags}`
  if (proven.has(name)) return undefined
  // Counted repetitions are too much for the proof. If any number of them takes linear time, so does this one.
  const general = pattern.replace(/(?<!\\)\{\d+(,\d*)?\}/g, '*')
  const { status, checker, complexity } = check(general, flags, { timeout: TIMEOUT_MS, checker: 'automaton' })
  if (status === 'safe' && checker === 'automaton') {
    proven.add(name)
    return undefined
  }
  return status === 'vulnerable' ? `takes time of ${complexity.summary}` : 'is not proven to take linear time'
}

function regexesOf(text) {
  const found = []
  const visit = (node) => {
    if (Array.isArray(node)) for (const each of node) visit(each)
    else if (node && typeof node === 'object') {
      if (node.type === 'Literal' && node.regex) found.push({ ...node.regex, start: node.start })
      const isMade = node.type === 'NewExpression' || node.type === 'CallExpression'
      if (isMade && node.callee.name === 'RegExp') found.push({ pattern: undefined, flags: '', start: node.start })
      for (const each of Object.values(node)) visit(each)
    }
  }
  visit(parseAst(text, { lang: 'ts' }))
  return found
}
