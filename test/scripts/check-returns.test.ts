/** Promises that leave the scope which they need are found by `npm run check`. */
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'

const BEGINNING = `
declare function open(): Disposable & AsyncDisposable & { read(): Promise<number>; count: number }
`

/** Each in a file of its own; a name that begins with `bad` has to be found. */
const FUNCTIONS = {
  bad1: 'export async function f() { using a = open(); return a.read() }',
  bad2: 'export async function f() { await using a = open(); if (a.count > 1) { return a.read() } return 1 }',
  bad3: 'export async function f(b: boolean) { using a = open(); return b ? a.read() : 1 }',
  bad4: 'export function f() { const a = open(); try { return a.read() } finally { a.count++ } }',
  bad5: 'export async function f() { try { return open().read() } catch { return 1 } }',
  bad6: 'export const f = async (n: number) => { switch (n) { case 1: using a = open(); return a.read(); default: return 1 } }',
  good1: 'export async function f() { using a = open(); return await a.read() }',
  good2: 'export async function f() { { using a = open(); a.count++ } return open().read() }',
  good3: 'export async function f() { using a = open(); return a.count }',
  good4: 'export async function f() { try { await open().read() } catch { return open().read() } return 1 }',
  good5: 'export function f() { try { return () => { return open().read() } } catch { return undefined } }',
}

it('finds each promise that is returned out of a scope which ends before it does, and no other', async () => {
  const folder = await temporaryFolder()
  const compilerOptions = {
    target: 'esnext',
    lib: ['esnext'],
    module: 'nodenext',
    strict: true,
    noEmit: true,
    types: [],
  }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
  for (const [name, text] of Object.entries(FUNCTIONS)) await writeFile(join(folder, `${name}.ts`), BEGINNING + text)
  const script = resolve(import.meta.dirname, '../../scripts/check-returns.ts')
  const { code, told } = await new Promise<{ code: number; told: string }>((resolve) => {
    execFile(process.execPath, [script, join(folder, 'tsconfig.json')], { cwd: folder }, (error, _, told) =>
      resolve({ code: Number(error?.code ?? 0), told }),
    )
  })
  const found = told.match(/^bad\d|^good\d|^.*good\d/gm) ?? []
  expect(found.sort(), told).toEqual(['bad1', 'bad2', 'bad3', 'bad4', 'bad5', 'bad6'])
  expect(code).toBe(1)
})
