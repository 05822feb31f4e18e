import { closeSync, openSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { open as openStore } from 'lmdb'
import { describe, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../../src/runtime/clock.ts'
import { LineLog, silentLog } from '../../../src/runtime/log/log.ts'
import {
  commandWords,
  ExternalProcess,
  type ExternalProcessOptions,
} from '../../../src/runtime/processes/external-process.ts'
import { KeptProcess } from '../../../src/runtime/processes/kept-process.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** A command that runs this program. */
async function script(program: string): Promise<string> {
  const file = join(await temporaryFolder(), 'a program.cjs')
  await writeFile(file, program)
  return `"${process.execPath}" '${file}'`
}

/** Lines that arrive, one after the other. */
class Lines {
  readonly #lines: string[] = []
  #wake: () => void = () => {}

  readonly add = (line: string): void => {
    this.#lines.push(line)
    this.#wake()
  }

  async next(): Promise<string> {
    while (this.#lines.length === 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    return this.#lines.shift()!
  }
}

function start(options: Partial<ExternalProcessOptions> & { command: string }): ExternalProcess {
  const started = new ExternalProcess({ name: 'test', log: silentLog, ...options })
  onTestFinished(() => started.stop())
  return started
}

const ECHO = `process.stdin.pipe(process.stdout)`

describe('the words of a command', () => {
  it.each([
    ['', []],
    ['  a  b\tc ', ['a', 'b', 'c']],
    [`"a b" 'c "d"' e\\ f`, ['a b', 'c "d"', 'e f']],
    [`a"b c"'d e'`, ['ab cd e']],
    [`"\\"\\\\" "C:\\dir" ''`, ['"\\', 'C:\\dir', '']],
    ['$HOME *.txt a|b', ['$HOME', '*.txt', 'a|b']],
    [`a "b c`, ['a', 'b c']],
  ])('are those of a shell, without its substitutions: %s', (line, words) => {
    expect(commandWords(line)).toEqual(words)
  })
})

describe('an external process', () => {
  it('is sent lines of JSON and read line by line', async () => {
    const lines = new Lines()
    const echo = start({ command: await script(ECHO), onLine: lines.add })
    echo.send({ a: 'ü\n' })
    echo.send([1])
    expect([await lines.next(), await lines.next()]).toEqual(['{"a":"ü\\n"}', '[1]'])
  })

  it('gets the words of its command as they are', async () => {
    const lines = new Lines()
    const program = `console.log(JSON.stringify(process.argv.slice(2)))`
    start({ command: `${await script(program)} --eval "a b" '$HOME' -- ';' ''`, onLine: lines.add })
    expect(JSON.parse(await lines.next())).toEqual(['--eval', 'a b', '$HOME', '--', ';', ''])
  })

  it.runIf(process.platform === 'linux')('has no descriptor of the server but its three streams', async () => {
    const store = openStore({ path: join(await temporaryFolder(), 'store.mdb') })
    onTestFinished(() => store.close())
    const descriptor = openSync('/dev/null', 'r')
    onTestFinished(() => closeSync(descriptor))
    const lines = new Lines()
    const list = `for f in /proc/$$/fd/*; do test -e $f && echo "\${f##*/} $(readlink $f)"; done; echo end`
    start({ command: `/bin/sh -c '${list}'`, onLine: lines.add })
    const found: string[] = []
    for (let line = await lines.next(); line !== 'end'; line = await lines.next()) found.push(line)
    expect(found.filter((line) => line.includes('store.mdb'))).toEqual([])
    expect(found.map((line) => line.split(' ')[0])).toEqual(['0', '1', '2'])
  })

  it.runIf(process.platform === 'linux')('ignores no signal that it did not choose to', async () => {
    const lines = new Lines()
    start({ command: 'grep SigIgn /proc/self/status', onLine: lines.add })
    expect(await lines.next()).toMatch(/^SigIgn:\s*0+$/)
  })

  it('has what it writes to stderr in the log', async () => {
    const lines = new Lines()
    const log = new LineLog('info', { write: lines.add }, { dated: false })
    start({ command: await script(`console.error('some trouble')`), log })
    expect(await lines.next()).toBe(`[info] [${process.pid}] some trouble program="test"\n`)
  })

  it('is ended when it writes a line that is too long', async () => {
    const command = await script(`process.stdout.write('x'.repeat(2000)); setInterval(() => {}, 1000)`)
    const heard: string[] = []
    const talker = start({ command, longestLineBytes: 1000, onLine: (line) => heard.push(line) })
    expect(await talker.exited).toBe('SIGKILL')
    expect(heard).toEqual([])
  })

  it('is ended when it does not read what it is sent', async () => {
    const deaf = start({ command: await script('setInterval(() => {}, 1000)') })
    for (let i = 0; i < 20; i++) deaf.send('x'.repeat(1024 * 1024))
    expect(await deaf.exited).toBe('SIGKILL')
    deaf.send('nobody hears this')
  })

  it('is gone when it was stopped, also one that does not want to', async () => {
    const lines = new Lines()
    const command = await script(`process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); console.log('ready')`)
    const stubborn = start({ command, onLine: lines.add })
    await lines.next()
    await stubborn.stop()
    expect(await stubborn.exited).toBe('SIGKILL')
    expect(() => process.kill(stubborn.pid!, 0)).toThrow('ESRCH')
  })

  it('ends with a status when there is no such program', async () => {
    expect(await start({ command: 'no-such-program' }).exited).toBe('status 127')
  })
})

describe('a kept process', () => {
  it('is restarted when it ends, until it ends too often, and on request', async () => {
    const lines = new Lines()
    const log = new LineLog('error', { write: lines.add }, { dated: false })
    let starts = 0
    const kept = new KeptProcess({
      name: 'test',
      command: 'false',
      log,
      clock: systemClock,
      limits: () => ({ maxRetries: 2, retryMs: 60_000 }),
      onStart: () => starts++,
    })
    onTestFinished(() => kept.stop())
    expect(await lines.next()).toContain('halted')
    expect(starts).toBe(3)
    await kept.restart()
    expect(await lines.next()).toContain('halted')
    expect(starts).toBe(6)
  })

  it('may end now and then', async () => {
    const lines = new Lines()
    let nowMs = 0
    const kept = new KeptProcess({
      name: 'test',
      command: await script(`console.log('hello')`),
      log: silentLog,
      clock: { nowMs: () => (nowMs += 1000), nowUs: () => 0 },
      limits: () => ({ maxRetries: 1, retryMs: 1000 }),
      onLine: lines.add,
    })
    onTestFinished(() => kept.stop())
    for (let i = 0; i < 5; i++) expect(await lines.next()).toBe('hello')
  })

  it('is not halted for exits that lie ahead since the clock was set back', async () => {
    const lines = new Lines()
    let nowMs = 0
    const kept = new KeptProcess({
      name: 'test',
      command: await script(`console.log('hello')`),
      log: silentLog,
      clock: { nowMs: () => (nowMs -= 3_600_000), nowUs: () => 0 },
      limits: () => ({ maxRetries: 1, retryMs: 1000 }),
      onLine: lines.add,
    })
    onTestFinished(() => kept.stop())
    for (let i = 0; i < 5; i++) expect(await lines.next()).toBe('hello')
  })
})
