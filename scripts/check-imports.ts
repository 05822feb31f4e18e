/**
 * Checks the structure of `src/`: a file imports only from its own layer and from layers below it, and no files import
 * each other in a cycle, types included. Part of `npm run check`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'

/** From the bottom to the top. Files right in `src/` put the layers together and stand above all of them. */
const LAYERS = [
  'encoding',
  'storage',
  'document',
  'selectors',
  'config',
  'runtime',
  'cluster',
  'scan',
  'multipart',
  'functions',
  'database',
  'backup',
  'views',
  'check',
  'auth',
  'external',
  'replication',
  'wire',
  'http',
  'nodes',
  'supervisor',
  'commands',
]

const root = resolve(import.meta.dirname, '../src')
const importsOf = new Map(sourceFiles(root).map((file) => [file, importedFiles(file)]))
const problems = [...upwardImports(), ...unknownFolders(), ...cycles()]
for (const problem of problems) process.stderr.write(`${problem}\n`)
if (problems.length > 0) process.exitCode = 1

function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name))
}

function importedFiles(file: string): string[] {
  const source = readFileSync(file, 'utf8')
  const specifiers = source.matchAll(/(?:\bfrom|\bimport|\bimport\()\s*'(\.[^']+\.ts)'/g)
  return Array.from(specifiers, ([, specifier]) => resolve(dirname(file), specifier!))
}

function nameOf(file: string): string {
  return relative(root, file).split(sep).join('/')
}

/** The height of a file's layer; files right in `src/` are above all layers. */
function heightOf(file: string): number {
  const name = nameOf(file)
  return name.includes('/') ? LAYERS.indexOf(name.slice(0, name.indexOf('/'))) : LAYERS.length
}

function* unknownFolders(): Generator<string> {
  for (const file of importsOf.keys()) {
    if (heightOf(file) < 0)
      yield `${nameOf(file)} is in a folder that is no layer: name it in scripts/check-imports.ts.`
  }
}

function* upwardImports(): Generator<string> {
  for (const [file, imports] of importsOf) {
    for (const imported of imports) {
      if (heightOf(imported) > heightOf(file))
        yield `${nameOf(file)} imports ${nameOf(imported)}, which is a layer above.`
    }
  }
}

/** Tarjan's algorithm: files that reach each other through imports. */
function cycles(): string[] {
  const found: string[] = []
  const order = new Map<string, number>()
  const lowest = new Map<string, number>()
  const path: string[] = []
  const visit = (file: string): number => {
    order.set(file, order.size)
    lowest.set(file, order.get(file)!)
    path.push(file)
    for (const imported of importsOf.get(file) ?? []) {
      if (!importsOf.has(imported)) continue
      const reached = order.has(imported)
        ? path.includes(imported)
          ? order.get(imported)!
          : Infinity
        : visit(imported)
      lowest.set(file, Math.min(lowest.get(file)!, reached))
    }
    if (lowest.get(file) === order.get(file)) {
      const circle = path.splice(path.indexOf(file))
      if (circle.length > 1) found.push(`These files import each other in a cycle: ${circle.map(nameOf).join(', ')}.`)
    }
    return lowest.get(file)!
  }
  for (const file of importsOf.keys()) if (!order.has(file)) visit(file)
  return found
}
