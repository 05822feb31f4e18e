/**
 * The script that a sandbox process runs: the modules of `child/` in one piece, and inside it, as text, those of `realm/`,
 * which run in isolates. A process that loads one script needs no right to read our files, and starts in two thirds of
 * the time.
 *
 * `npm run build` writes the script beside the compiled modules. From sources it is made in memory, once a server.
 */
import { readFileSync } from 'node:fs'
import { getCompileCacheDir } from 'node:module'
import { extname } from 'node:path'
import { linkModules } from './link-modules.ts'
import { StrippedSources } from './stripped-sources.ts'

/** Where a process reads the script from. */
export const SCRIPT_DESCRIPTOR = 3

/** Given as `--eval`. */
export const SCRIPT_LOADER = `new Function('require', require('node:fs').readFileSync(${SCRIPT_DESCRIPTOR}, 'utf8'))(require)`

/** The name of the built script, in the folder of this module. */
export const BUILT_SCRIPT = 'sandbox-script.built.js'

let script: string | undefined

export function sandboxScript(): string {
  script ??= isBuilt() ? readFileSync(new URL(BUILT_SCRIPT, import.meta.url), 'utf8') : scriptFromSources()
  return script
}

/** Links the script from the modules of a folder `functions/`, whose files end in this extension. */
export function linkSandbox(folder: URL, extension: string, strip: (source: string) => string): string {
  const realm = linkModules(new URL(`realm/realm${extension}`, folder), strip)
  const child = linkModules(new URL(`child/child${extension}`, folder), strip)
  // The isolate evaluates the text to a function. Inside of another one, so that user code sees none of its variables.
  const realmText = `(function () {\n${realm}})().createRealm`
  return `const REALM_SCRIPT = ${JSON.stringify(realmText)}\n${child}`
}

/** Compiled modules are JavaScript. */
function isBuilt(): boolean {
  return extname(import.meta.url) === '.js'
}

function scriptFromSources(): string {
  const stripped = new StrippedSources(getCompileCacheDir())
  const linked = linkSandbox(new URL('../', import.meta.url), '.ts', (source) => stripped.strip(source))
  stripped.save()
  return linked
}
