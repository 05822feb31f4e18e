import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')

/** The first argument of `warn` and `error`, where it is a sentence; what index processes send; what is said of lost lines. */
const PATTERNS = [
  /\.(?:warn|error)\(\s*(['"`])((?:(?!\1)[^\\\n])+\.)\1/g,
  /level: ('|")(?:warn|error)\1, message: '([^']+)'/g,
  /\.line\(('|")warn\1, '([^']+)'/g,
  /\bfailure: ('|")([^']+)\1/g,
]

it('every warning and every error of the log is explained in docs/log-messages.md', async () => {
  const listed = await readFile(join(ROOT, 'docs/log-messages.md'), 'utf8')
  const files = await readdir(join(ROOT, 'src'), { recursive: true })
  const messages = new Set<string>()
  for (const file of files) {
    // Commands speak to their terminal, not to the log.
    if (!file.endsWith('.ts') || file.startsWith('commands/')) continue
    const text = await readFile(join(ROOT, 'src', file), 'utf8')
    for (const pattern of PATTERNS) for (const [, , message = ''] of text.matchAll(pattern)) messages.add(message)
  }
  expect(messages.size).toBeGreaterThan(50)
  const missing = [...messages].filter((message) => !listed.includes(`| ${message} |`))
  expect(missing, 'messages that docs/log-messages.md does not explain').toEqual([])
})
