import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const UNIT = join(import.meta.dirname, '../../examples/systemd/settle.service')
const ANALYZE = '/usr/bin/systemd-analyze'

describe('the unit for systemd', () => {
  it('gives the server time to end, and descriptors', async () => {
    const text = await readFile(UNIT, 'utf8')
    // A server that does not end is killed by its supervisor after 45 seconds.
    expect(Number(/^TimeoutStopSec=(\d+)s$/m.exec(text)?.[1])).toBeGreaterThan(45)
    expect(Number(/^LimitNOFILE=(\d+)$/m.exec(text)?.[1])).toBeGreaterThanOrEqual(65_536)
    expect(text).toMatch(/^KillMode=mixed$/m)
    expect(text).not.toMatch(/^MemoryDenyWriteExecute=yes/m)
  })

  it.skipIf(!existsSync(ANALYZE))('is one that systemd understands (skipped without systemd-analyze)', async () => {
    const { stdout, stderr } = await promisify(execFile)(ANALYZE, ['verify', UNIT])
    // Other units of the machine may have faults of their own.
    expect(`${stdout}${stderr}`).not.toContain('settle.service')
  })
})
