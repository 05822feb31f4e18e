/** Puts a folder that was just built where others look for it. Who comes second has built the same. */
import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'

export function replaceFolder(target, built) {
  mkdirSync(dirname(target), { recursive: true })
  rmSync(target, { recursive: true, force: true })
  try {
    renameSync(built, target)
  } catch {
    rmSync(built, { recursive: true, force: true })
  }
}
