/** Writes the script of sandbox processes into `dist/`, from the modules that the compiler put there. Part of `npm run build`. */
import { writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { BUILT_SCRIPT, linkSandbox } from '../src/functions/sandbox/sandbox-script.ts'

const [folder = 'dist'] = process.argv.slice(2)
const functions = pathToFileURL(`${resolve(folder, 'functions')}/`)
const script = linkSandbox(functions, '.js', (source) => source)
writeFileSync(new URL(`sandbox/${BUILT_SCRIPT}`, functions), script)
