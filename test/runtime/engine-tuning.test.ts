import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const MODULE = join(import.meta.dirname, '../../src/runtime/engine-tuning.ts')

describe.each(['optimizeEarly', 'boundHeapGrowth'])('%s', (name) => {
  it('sets a flag that the V8 of this release knows: nothing is complained about', () => {
    const script = `const { ${name} } = await import(${JSON.stringify(MODULE)}); ${name}()`
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script])
    expect({ status, stdout: String(stdout), stderr: String(stderr) }).toEqual({ status: 0, stdout: '', stderr: '' })
  })
})
