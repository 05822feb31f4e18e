/**
 * Bundles the modules of the server and of index processes: a few files load in half the time of hundreds. `npm run build` does
 * so beside the compiled modules (`node scripts/bundle-processes.mjs dist`). Without a folder the sources are bundled into the
 * cache of `node_modules`, once for each state of them: for `npm start` and `npm test`. A process whose sources have changed
 * since then loads the modules themselves (`src/runtime/processes/process-entry.ts`).
 */
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { replaceFolder } from './replace-folder.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const MANIFEST = 'sources.json'
const [built] = process.argv.slice(2)
const modules = built === undefined ? join(root, 'src') : resolve(built)
const extension = built === undefined ? '.ts' : '.js'
const bundles =
  built === undefined ? join(root, 'node_modules', '.cache', 'settle-processes') : join(modules, 'bundles')

for (const module of ['server-process', 'views/processes/index-process']) {
  const entry = join(modules, `${module}${extension}`)
  const target = join(bundles, basename(module))
  if (built === undefined && isFresh(target)) continue
  try {
    await bundle(entry, target)
  } catch (error) {
    process.stderr.write(`${module} could not be bundled: ${error}\n`)
    // Who only wants the server gets it; who builds a package must know.
    process.exitCode = built === undefined ? 0 : 1
  }
}

/** A bundle lists the files that it was made from, each with its size and time. Those of a package do not change. */
function isFresh(target) {
  const manifest = join(target, MANIFEST)
  if (!existsSync(manifest)) return false
  try {
    return JSON.parse(readFileSync(manifest, 'utf8')).every((source) => {
      const { size, mtimeMs } = statSync(join(root, source.path))
      return size === source.size && mtimeMs === source.mtimeMs
    })
  } catch {
    return false
  }
}

function stateOf(path) {
  const { size, mtimeMs } = statSync(path)
  return { path: relative(root, path), size, mtimeMs }
}

async function bundle(entry, target) {
  const { build } = await import('vite')
  // Whole before it has its name: a server or a second build never sees half of it.
  const unfinished = `${target}-${process.pid}`
  const sources = [stateOf(fileURLToPath(import.meta.url))]
  await build({
    configFile: false,
    logLevel: 'error',
    root,
    plugins: [keepLocations(unfinished, sources)],
    build: {
      ssr: true,
      target: 'esnext',
      minify: false,
      outDir: unfinished,
      emptyOutDir: true,
      copyPublicDir: false,
      rolldownOptions: {
        input: entry,
        output: { entryFileNames: '[name].js', chunkFileNames: '[name].js' },
      },
    },
  })
  writeFileSync(join(unfinished, 'package.json'), '{"type":"module"}\n')
  if (built === undefined) writeFileSync(join(unfinished, MANIFEST), JSON.stringify(sources))
  replaceFolder(target, unfinished)
}

/** Modules find files that lie beside them where they would without a bundle. */
function keepLocations(folder, sources) {
  return {
    name: 'keep-locations',
    enforce: 'pre',
    transform(code, id) {
      if (!id.startsWith(modules)) return undefined
      sources.push(stateOf(id))
      const place = JSON.stringify(relative(folder, id).split('\\').join('/'))
      const url = `new URL(${place}, import.meta.url)`
      const path = `process.getBuiltinModule('node:url').fileURLToPath(${url})`
      const forms = {
        url: `${url}.href`,
        filename: path,
        dirname: `process.getBuiltinModule('node:path').dirname(${path})`,
      }
      return code.replace(/\bimport\.meta\.(url|filename|dirname)\b/g, (_, name) => forms[name])
    },
  }
}
