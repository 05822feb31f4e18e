/**
 * The modules of a sandbox process as one script, made once. To load them one by one takes a process a third of its start, and
 * more where types have to be stripped from them; and it would need the right to read them.
 *
 * Of the forms of import and export only those are known that these modules use; any other fails at once.
 */
import { readFileSync } from 'node:fs'
import { getCompileCacheDir } from 'node:module'
import { StrippedSources } from './stripped-sources.ts'

/** Where a process finds the script. */
export const SCRIPT_DESCRIPTOR = 3

/** Given as `--eval`. */
export const SCRIPT_LOADER = `new Function('require', require('node:fs').readFileSync(${SCRIPT_DESCRIPTOR}, 'utf8'))(require)`

let known: { readonly entry: string; readonly script: string } | undefined

/** All that the module at this address needs, and itself at the end: the body of a function of `require`. */
export function sandboxScript(entry: string): string {
  if (known?.entry !== entry) known = { entry, script: scriptOf(entry) }
  return known.script
}

interface ScriptModule {
  /** A name that stands for what it exports. */
  readonly name: string
  readonly text: string
}

function scriptOf(entry: string): string {
  // In the order in which they are to run: a module after those that it imports.
  const modules = new Map<string, ScriptModule>()
  const stripped = new StrippedSources(getCompileCacheDir())
  const include = (url: string): string => {
    const known = modules.get(url)
    if (known) return known.name
    const source = sourceOf(url, stripped)
    const exported: string[] = []
    const body = source
      .replace(IMPORT, (_, names: string, from: string) => {
        const value = from.startsWith('.') ? include(new URL(from, url).href) : `require('${from}')`
        return `const ${names.replaceAll(' as ', ': ')} = ${value}`
      })
      .replace(EXPORT, (_, declaration: string, name: string) => {
        exported.push(name)
        return `${declaration} ${name}`
      })
    if (UNKNOWN.test(body)) throw new SyntaxError(`An import or export of ${url} is not understood.`)
    const name = `module${modules.size}`
    modules.set(url, { name, text: `const ${name} = (() => {\n${body}\nreturn { ${exported} }\n})()\n` })
    return name
  }
  include(entry)
  stripped.save()
  return `'use strict'\n${Array.from(modules.values(), ({ text }) => text).join('')}`
}

function sourceOf(url: string, stripped: StrippedSources): string {
  const text = readFileSync(new URL(url), 'utf8')
  return url.endsWith('.ts') ? stripped.strip(text) : text
}

const IMPORT = /^import\s+([^'"]+?)\s+from\s+'([^']+)'/gm
const EXPORT = /^export\s+(const|function|class)\s+(\w+)/gm
const UNKNOWN = /^(?:import|export)\b|\bimport\.meta\b/m
