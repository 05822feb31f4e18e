/** The Dockerfile as its stages and their steps. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

export const ROOT = join(import.meta.dirname, '../..')

export interface Step {
  readonly name: string
  readonly text: string
}

export interface Stage {
  readonly image: string
  readonly steps: readonly Step[]
}

export async function dockerfile(): Promise<{ readonly stages: readonly Stage[] }> {
  const lines = (await readFile(join(ROOT, 'Dockerfile'), 'utf8')).split('\n')
  const stages: { image: string; steps: Step[] }[] = []
  for (const line of lines) {
    const [, name, text] = /^([A-Z]+) (.+)$/.exec(line) ?? []
    if (name === undefined || text === undefined) {
      if (line !== '' && !line.startsWith('#')) throw new Error(`${line} is not an instruction.`)
    } else if (name === 'FROM') stages.push({ image: text.split(' ')[0] ?? '', steps: [] })
    else stages.at(-1)?.steps.push({ name, text })
  }
  return { stages }
}
