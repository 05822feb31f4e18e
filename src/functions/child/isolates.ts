/**
 * The library of isolates, from the file that the server found: looking for it by name would mean to read folders that
 * this process has no right to, where packages are links to other places.
 */
import { createRequire } from 'node:module'

/** Behind the program itself; the parser comes after it. */
const [, addonFile = ''] = process.argv

export const isolates: typeof import('isolated-vm') = createRequire(addonFile)(addonFile)
