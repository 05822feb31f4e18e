/** The JavaScript parser, loaded from the file that the server found when it is first needed (see `isolates.ts`). */
import { createRequire } from 'node:module'
import type { Parse } from './mutation.ts'

/** Behind the addon. */
const [, , parserFile = ''] = process.argv

let parser: typeof import('acorn') | undefined

export const parseScript: Parse = (script) => {
  const loaded: typeof import('acorn') = parser ?? createRequire(parserFile)(parserFile)
  parser = loaded
  return loaded.parse(script, { ecmaVersion: 'latest', sourceType: 'script' })
}
