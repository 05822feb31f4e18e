/**
 * The library of isolates, loaded from the file that the server found. Resolving it by name would read folders that this
 * process may not read, where packages are symbolic links.
 */
import { createRequire } from 'node:module'

/** Behind the program itself; the parser comes after it. */
const [, addonFile = ''] = process.argv

export const isolates: typeof import('isolated-vm') = createRequire(addonFile)(addonFile)
