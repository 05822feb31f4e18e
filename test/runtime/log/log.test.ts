import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { LineLog, logLevelOf } from '../../../src/runtime/log/log.ts'
import { LogFile, LogMemory } from '../../../src/runtime/log/server-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

describe('a log', () => {
  it('writes readable lines of its level and above, and the level may change', () => {
    const lines: string[] = []
    const log = new LineLog('info', { write: (line) => void lines.push(line) })
    log.debug('not this')
    log.info('A database was created.', { name: 'a"b', count: 2 })
    log.level = 'error'
    log.warn('nor this')
    log.error('No room.')
    log.level = 'none'
    log.error('nor this')
    expect(lines).toHaveLength(2)
    expect(lines[0]).toMatch(
      /^\[\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\] \[info\] \[\d+\] A database was created\. name="a\\"b" count=2\n$/,
    )
    expect(lines[1]).toMatch(/\[error\] \[\d+\] No room\.\n$/)
  })

  it('writes one line a message, without its date where that is switched off', () => {
    const lines: string[] = []
    const log = new LineLog('info', { write: (line) => void lines.push(line) }, { dated: false })
    log.info('a\nb\r\u2028[error] forged')
    expect(lines).toEqual([`[info] [${process.pid}] a\\u000ab\\u000d\\u2028[error] forged\n`])
  })

  it('writes an object a line in the format json, whatever a message or a detail has in it', () => {
    const lines: string[] = []
    const log = new LineLog('info', { write: (line) => void lines.push(line) })
    log.format = 'json'
    log.warn('a\n{"level":"error"}\u2028', { name: 'x\ny', level: 'mine', message: 'too' })
    log.debug('not this')
    log.format = 'text'
    log.info('text again')
    expect(lines).toHaveLength(2)
    expect(lines[0]).toMatch(/^[^\n\u2028]+\n$/)
    expect(JSON.parse(lines[0] ?? '')).toEqual({
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      level: 'warn',
      process: process.pid,
      message: 'a\n{"level":"error"}\u2028',
      name: 'x\ny',
      detail_level: 'mine',
      detail_message: 'too',
    })
    expect(lines[1]).toMatch(/text again\n$/)
  })

  it('knows the words of the configuration', () => {
    expect(['debug', 'info', 'warn', 'warning', 'error', 'none', 'toString'].map(logLevelOf)).toEqual([
      'debug',
      'info',
      'warn',
      'warn',
      'error',
      'none',
      'error',
    ])
  })
})

const NOTICES = { onFailure: () => undefined, lossLine: (lines: number) => `${lines} lost\n` }

describe('a log file', () => {
  it('is appended to, read from its end, and rotated when it is full', async () => {
    const folder = await temporaryFolder()
    const path = join(folder, 'deep', 'a.log')
    const file = await LogFile.open(path, { fileBytes: 100, olderFiles: 2 }, NOTICES)
    file.write('first\n')
    expect((await file.tail(3, 1)).toString()).toBe('rst')
    expect((await file.tail(1000, 0)).toString()).toBe('first\n')
    expect((await file.tail(1000, 1000)).toString()).toBe('first\n')
    for (let i = 0; i < 50; i++) {
      file.write(`${String(i).padStart(19)}\n`)
      await file.flush()
    }
    await file.close()
    expect(await readdir(join(folder, 'deep'))).toEqual(['a.log', 'a.log.1', 'a.log.2'])
    for (const name of await readdir(join(folder, 'deep'))) {
      expect((await stat(join(folder, 'deep', name))).size).toBeLessThan(130)
    }
    const again = await LogFile.open(path, { fileBytes: 1000, olderFiles: 2 }, NOTICES)
    again.write('last\n')
    await again.close()
    expect(await readFile(path, 'utf8')).toMatch(/last\n$/)
  })

  it('is in memory a log of the last lines', async () => {
    const memory = new LogMemory()
    for (let i = 0; i < 30_000; i++) memory.write(`${'x'.repeat(95)}${String(i).padStart(4)}\n`.slice(-100))
    expect((await memory.tail(10, 0)).toString()).toMatch(/29999\n$/)
    expect((await memory.tail(10_000_000, 0)).length).toBeLessThan(2_200_000)
  })
})
