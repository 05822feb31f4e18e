import { writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { linkModules } from '../../../src/functions/sandbox/link-modules.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** What the script of these modules gives; the first one says it with `tell`. */
async function told(modules: Readonly<Record<string, string>>): Promise<unknown[]> {
  const folder = await temporaryFolder()
  for (const [name, text] of Object.entries(modules)) writeFileSync(join(folder, name), text)
  const [entry = ''] = Object.keys(modules)
  const script = linkModules(pathToFileURL(join(folder, entry)), (source) => stripTypeScriptTypes(source))
  const values: unknown[] = []
  new Function('require', 'tell', script)(
    (name: string) => process.getBuiltinModule(name),
    (value: unknown) => values.push(value),
  )
  return values
}

it('gives what the entry exports', async () => {
  const folder = await temporaryFolder()
  writeFileSync(join(folder, 'main.js'), 'export const one = 1\nexport function two() {}\n')
  const script = linkModules(pathToFileURL(join(folder, 'main.js')), (source) => source)
  expect(Object.keys(new Function('require', script)())).toEqual(['one', 'two'])
})

describe('modules become one script', () => {
  it('that runs each of them once, after those that it imports', async () => {
    const values = await told({
      'main.ts': "import { two } from './two.ts'\nimport { one } from './one.ts'\ntell(one + two)\n",
      'two.ts': "import { one } from './one.ts'\nexport const two: number = one + 1\ntell('two')\n",
      'one.ts': "export const one = 1\ntell('one')\n",
    })
    expect(values).toEqual(['one', 'two', 3])
  })

  it('in which names of different modules do not meet', async () => {
    const values = await told({
      'main.ts': "import { name as other } from './other.ts'\nconst name = 'main'\ntell(name + other)\n",
      'other.ts':
        "const hidden = 'other'\nexport function unused() {}\nexport class Unused {}\nexport const name = hidden\n",
    })
    expect(values).toEqual(['mainother'])
  })

  it('with the modules of the system', async () => {
    const source =
      "import assert from 'node:assert/strict'\nimport { join } from 'node:path'\nassert(true)\ntell(join('a', 'b'))\n"
    expect(await told({ 'main.ts': source })).toEqual(['a/b'])
  })

  it.each(['export default 1\n', "import * as fs from 'node:fs'\nexport * from './x.ts'\n", 'tell(import.meta.url)\n'])(
    'or not at all: %j',
    async (source) => {
      await expect(told({ 'main.ts': source })).rejects.toThrow('not understood')
    },
  )
})
