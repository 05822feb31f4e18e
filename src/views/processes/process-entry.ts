/**
 * The file that an index process begins with. A bundle of all modules loads in half the time that the modules take one by one.
 * `npm run build` puts one beside the compiled modules. For sources `npm start` keeps one in a cache: it is used for as long as
 * none of the files that it was made from has changed.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isObject } from '../../encoding/json/json-value.ts'

const ROOT = new URL('../../../', import.meta.url)
const CACHED = new URL('node_modules/.cache/settle-processes/', ROOT)

let known: string | undefined

export function processEntry(): string {
  known ??= findEntry()
  return known
}

function findEntry(): string {
  const extension = extname(import.meta.url)
  const bundle = extension === '.js' ? new URL('./bundle/', import.meta.url) : CACHED
  const entry = fileURLToPath(new URL('index-process.js', bundle))
  const isUsable = extension === '.js' ? existsSync(entry) : isOfSources(fileURLToPath(bundle), fileURLToPath(ROOT))
  return isUsable ? entry : fileURLToPath(new URL(`./index-process${extension}`, import.meta.url))
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
