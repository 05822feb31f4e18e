/**
 * The commit that the program was made from: what the build wrote beside it, or what is checked out where it runs from its
 * sources. Undefined where neither is there.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Beside the compiled program. */
export const COMMIT_FILE = 'commit'

/** The length that CouchDB shows. */
const DIGITS = 9

export const commit: string | undefined = builtCommit() ?? checkedOut(fileURLToPath(new URL('../..', import.meta.url)))

function builtCommit(): string | undefined {
  return shortened(contentOf(fileURLToPath(new URL(`../${COMMIT_FILE}`, import.meta.url))))
}

/** Read from Git's own files: a server needs no Git to run. */
export function checkedOut(folder: string): string | undefined {
  const own = resolve(folder, '.git')
  // Of a further worktree `.git` is a file that names its folder, and that names the one they have in common.
  const elsewhere = contentOf(own)?.match(/^gitdir: (.+)/)?.[1]
  const git = elsewhere === undefined ? own : resolve(folder, elsewhere)
  const shared = resolve(git, contentOf(resolve(git, 'commondir'))?.trim() ?? '.')
  const head = contentOf(resolve(git, 'HEAD'))?.trim()
  const reference = head?.match(/^ref: (refs\/\S+)$/)?.[1]
  if (reference === undefined) return shortened(head)
  return shortened(contentOf(resolve(shared, reference)) ?? packed(shared, reference))
}

function packed(git: string, reference: string): string | undefined {
  const lines = contentOf(resolve(git, 'packed-refs'))?.split('\n') ?? []
  return lines.find((line) => line.endsWith(` ${reference}`))
}

function shortened(text: string | undefined): string | undefined {
  return text !== undefined && /^[0-9a-f]{40}/.test(text) ? text.slice(0, DIGITS) : undefined
}

function contentOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
