/**
 * The modules of a sandbox process without their types. Run from its TypeScript sources, a process would spend more than half
 * of its start on stripping them; so the server does it, once for all, and hands them over. A built server has no need of it.
 */
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'

/** Given as `--import`: takes modules from the descriptor where the server puts them. */
export const MODULES_DESCRIPTOR = 3
export const moduleHooks = `data:text/javascript,${encodeURIComponent(`
  import { readFileSync } from 'node:fs'
  import { registerHooks } from 'node:module'
  const sources = JSON.parse(readFileSync(${MODULES_DESCRIPTOR}, 'utf8'))
  registerHooks({
    load: (url, context, next) =>
      Object.hasOwn(sources, url)
        ? { format: 'module', source: sources[url], shortCircuit: true }
        : next(url, context),
  })
`)}`

let known: { readonly entry: string; readonly json: string } | undefined

/** JSON of the source of each module that the entry needs, by its address. */
export function strippedModules(entry: string): string {
  if (known?.entry !== entry) known = { entry, json: JSON.stringify(gather(entry)) }
  return known.json
}

function gather(entry: string): Record<string, string> {
  const sources: Record<string, string> = {}
  const waiting = [entry]
  for (let url = waiting.pop(); url !== undefined; url = waiting.pop()) {
    if (Object.hasOwn(sources, url)) continue
    const source = quietly(() => stripTypeScriptTypes(readFileSync(new URL(url), 'utf8')))
    sources[url] = source
    for (const [, path = ''] of source.matchAll(IMPORT)) waiting.push(new URL(path, url).href)
  }
  return sources
}

/** Stripping types by hand is called experimental, which nobody wants to read at each start. */
function quietly<T>(work: () => T): T {
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return work()
  } finally {
    process.emitWarning = emitWarning
  }
}

/** What is left of imports once types are gone: all of them are needed. */
const IMPORT = /^(?:import|export)\b[^'"]*?from '(\.{1,2}\/[^']+\.ts)'/gm
