import { expect, it } from 'vitest'
import { createLog } from '../../src/runtime/log.ts'

it('writes readable lines of its level and above', () => {
  const lines: string[] = []
  const log = createLog('info', { write: (line) => lines.push(line) })
  log.debug('not this')
  log.info('A database was created.', { name: 'a"b', count: 2 })
  log.error('No room.')
  expect(lines).toHaveLength(2)
  expect(lines[0]).toMatch(/^\[\d{4}-\d\d-\d\dT[\d:.]+Z\] \[info\] A database was created\. name="a\\"b" count=2\n$/)
  expect(lines[1]).toMatch(/\[error\] No room\.\n$/)
})
