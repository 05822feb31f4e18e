/** LMDB ends the process when it runs out of file descriptors while it opens a file. So they are counted before. */
import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import { NoDescriptorsError } from '../storage-error.ts'

/** LMDB keeps three for a file, and needs one or two more in passing. */
const NEEDED = 8

/** Throws `NoDescriptorsError` where a file cannot be opened safely. There is no call to ask the system for the number. */
export function requireDescriptors(): void {
  const taken: number[] = []
  try {
    while (taken.length < NEEDED) taken.push(openSync(devNull, 'r'))
  } catch (error) {
    throw new NoDescriptorsError('Too many files and connections are open; try again later.', { cause: error })
  } finally {
    for (const descriptor of taken) closeSync(descriptor)
  }
}
