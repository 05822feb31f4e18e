/**
 * The file that a process begins with. A bundle of all its modules loads in half the time that the modules take one by one.
 * `npm run build` puts bundles beside the compiled modules. For sources `npm start` keeps them in a cache: one is used for as
 * long as none of the files that it was made from has changed.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isObject } from '../../encoding/json/json-value.ts'

/** The module of the process, below `src/`, without its extension. The names are those of `scripts/bundle-processes.mjs`. */
export type ProcessModule = 'server-process' | 'views/processes/index-process'

const MODULES = new URL('../../', import.meta.url)
const ROOT = new URL('../', MODULES)
const CACHED = new URL('node_modules/.cache/settle-processes/', ROOT)

const known = new Map<ProcessModule, string>()

export function processEntry(module: ProcessModule): string {
  const entry = known.get(module) ?? findEntry(module)
  known.set(module, entry)
  return entry
}

/** Its modules one by one, for tools that look at them or change them. */
export function unbundledEntry(module: ProcessModule): string {
  return fileURLToPath(new URL(`${module}${extname(import.meta.url)}`, MODULES))
}

function findEntry(module: ProcessModule): string {
  const isCompiled = extname(import.meta.url) === '.js'
  const name = basename(module)
  const bundle = fileURLToPath(new URL(`${name}/`, isCompiled ? new URL('bundles/', MODULES) : CACHED))
  const entry = join(bundle, `${name}.js`)
  const isUsable = isCompiled ? existsSync(entry) : isOfSources(bundle, fileURLToPath(ROOT))
  return isUsable ? entry : unbundledEntry(module)
}

/** Whether the files below `root` that the bundle was made from are as they were then. */
export function isOfSources(bundle: string, root: string): boolean {
  try {
    const sources: unknown = JSON.parse(readFileSync(join(bundle, 'sources.json'), 'utf8'))
    return Array.isArray(sources) && sources.length > 0 && sources.every((source) => isUnchanged(source, root))
  } catch {
    // There is no bundle, or a file is gone.
    return false
  }
}

function isUnchanged(source: unknown, root: string): boolean {
  if (!isObject(source) || typeof source.path !== 'string') return false
  const { size, mtimeMs } = statSync(join(root, source.path))
  return size === source.size && mtimeMs === source.mtimeMs
}
