/**
 * The libraries of a sandbox process, loaded from the files that the server found. Resolving them by name would read folders
 * that this process may not read, where packages are symbolic links.
 */
import { createRequire } from 'node:module'
import type { Parse } from './mutation.ts'

/** The arguments of the process. */
const [, addonFile = '', parserFile = ''] = process.argv

export const isolates: typeof import('isolated-vm') = createRequire(addonFile)(addonFile)

let parser: typeof import('acorn') | undefined

/** The JavaScript parser. It is loaded with the first map function. */
export const parseScript: Parse = (script) => {
  const loaded: typeof import('acorn') = parser ?? createRequire(parserFile)(parserFile)
  parser = loaded
  return loaded.parse(script, { ecmaVersion: 'latest', sourceType: 'script' })
}
