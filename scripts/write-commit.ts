/** Writes the commit that is being built into `dist/`. Part of `npm run build`; without Git there is none. */
import { execFileSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { COMMIT_FILE } from '../src/runtime/commit.ts'

const [folder = 'dist'] = process.argv.slice(2)
const file = resolve(folder, COMMIT_FILE)
try {
  writeFileSync(
    file,
    execFileSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
  )
} catch {
  rmSync(file, { force: true })
}
