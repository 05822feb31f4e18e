/**
 * Links a module and all that it imports into one script. The result is the body of a function of `require` that returns
 * what the module exports.
 *
 * It knows the forms of import and export that the linked modules use. Any other is a `SyntaxError`.
 */
import { readFileSync } from 'node:fs'

interface LinkedModule {
  /** A variable that holds what it exports. */
  readonly name: string
  readonly text: string
}

/** `strip` removes the types from the text of a TypeScript file. */
export function linkModules(entry: URL, strip: (source: string) => string): string {
  // In the order in which they are to run: a module after those that it imports.
  const modules = new Map<string, LinkedModule>()
  const include = (url: string): string => {
    const known = modules.get(url)
    if (known) return known.name
    const text = readFileSync(new URL(url), 'utf8')
    const exported: string[] = []
    const body = (url.endsWith('.ts') ? strip(text) : text)
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
  const name = include(entry.href)
  return `'use strict'\n${Array.from(modules.values(), ({ text }) => text).join('')}return ${name}\n`
}

const IMPORT = /^import\s+([^'"]+?)\s+from\s+'([^']+)'/gm
const EXPORT = /^export\s+(const|function|class)\s+(\w+)/gm
const UNKNOWN = /^(?:import|export)\b|\bimport\.meta\b/m
