/** The version of this release, as its package has it. */
import { readFileSync } from 'node:fs'

const PACKAGE_FILE = new URL('../../package.json', import.meta.url)

export const version: string = JSON.parse(readFileSync(PACKAGE_FILE, 'utf8')).version
