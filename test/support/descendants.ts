/** The processes that a process has started, and those that these have. Linux only. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The processes below one, in any depth, whose title is this. */
export function descendantsCalled(pid: number, title: string): number[] {
  return childrenOf(pid).flatMap((child) => {
    const own = titleOf(child) === title ? [child] : []
    return [...own, ...descendantsCalled(child, title)]
  })
}

/** All processes below one. */
export function descendants(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...descendants(child)])
}

function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(join(`/proc/${pid}/task`, thread, 'children'), 'utf8')
        .split(' ')
        .filter((each) => each !== '')
        .map(Number),
    )
  } catch {
    return []
  }
}

function titleOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[0]?.trim() ?? ''
  } catch {
    return ''
  }
}
