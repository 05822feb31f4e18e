/**
 * Runs a program under strace and gives the system calls it made on files, with all data, in the order in which they
 * began and ended. A thread stands still while strace notes its call, so a call that another one waited for is noted
 * first.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'

export interface SystemCall {
  readonly name: string
  /** As strace writes them; text in quotes has every byte as \xNN. */
  readonly parameters: string
  /** Negative when the call failed, or never ended. */
  readonly result: number
}

/** A moment of the run: a call begins, or ends. */
export interface Step {
  readonly call: SystemCall
  readonly phase: 'begin' | 'end'
}

const FILE_CALLS = [
  ...['open', 'openat', 'openat2', 'creat', 'close', 'dup', 'dup2', 'dup3', 'fcntl', 'lseek'],
  ...['read', 'readv', 'write', 'writev', 'pwrite64', 'pwritev', 'pwritev2', 'sendfile', 'splice', 'copy_file_range'],
  ...['fsync', 'fdatasync', 'sync', 'syncfs', 'sync_file_range', 'msync', 'truncate', 'ftruncate', 'fallocate'],
  ...['rename', 'renameat', 'renameat2', 'link', 'linkat', 'symlink', 'symlinkat', 'unlink', 'unlinkat'],
  ...['mkdir', 'mkdirat', 'rmdir', 'mmap'],
]

/** Runs the Node program to its end. */
export async function record(program: string, parameters: readonly string[], traceFile: string): Promise<Step[]> {
  // A question mark: not every processor has every call.
  const calls = FILE_CALLS.map((call) => `?${call}`).join()
  const strace = ['-f', '--seccomp-bpf', '-v', '-xx', '-s', '33554432', '-o', traceFile, '-e', `trace=${calls}`]
  const traced = spawn('strace', [...strace, process.execPath, program, ...parameters], {
    stdio: ['ignore', 'ignore', 'pipe'],
    // Calls that go through a ring in memory are invisible to strace.
    env: { ...process.env, UV_USE_IO_URING: '0' },
  })
  let complaints = ''
  traced.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text
  })
  const [code] = await once(traced, 'close')
  if (code !== 0 || complaints !== '') throw new Error(`The recorded program ended with ${code}: ${complaints}`)
  return parse(createInterface({ input: createReadStream(traceFile) }))
}

/** Installs strace where that is possible, and says what to do where it is not. */
export function needStrace(): void {
  if (runs('strace', '-V')) return
  if (process.getuid?.() === 0 && runs('apt-get', '--version')) {
    spawnSync('apt-get', ['update'])
    spawnSync('apt-get', ['install', '--yes', '--no-install-recommends', 'strace'])
  }
  if (!runs('strace', '-V'))
    throw new Error('The power-cut test needs strace: install it, for example by apt-get install strace.')
}

function runs(command: string, option: string): boolean {
  return spawnSync(command, [option]).status === 0
}

const BEGUN = /^(\d+)\s+(\w+)\(/
const RESUMED = /^(\d+)\s+<\.\.\. \w+ resumed>/
const UNFINISHED = ' <unfinished ...>'

async function parse(lines: AsyncIterable<string>): Promise<Step[]> {
  const steps: Step[] = []
  const unfinished = new Map<string, { name: string; text: string; step: number }>()
  for await (const line of lines) {
    const resumed = RESUMED.exec(line)
    if (resumed) {
      const begun = unfinished.get(resumed[1]!)
      if (!begun) throw new Error(`strace resumes what never began: ${line.slice(0, 100)}`)
      unfinished.delete(resumed[1]!)
      const call = finished(begun.name, begun.text + line.slice(resumed[0].length))
      steps[begun.step] = { call, phase: 'begin' }
      steps.push({ call, phase: 'end' })
      continue
    }
    const begun = BEGUN.exec(line)
    if (!begun) continue
    const [whole, thread, name] = begun
    const text = line.slice(whole.length)
    if (text.endsWith(UNFINISHED)) {
      const parameters = text.slice(0, -UNFINISHED.length)
      unfinished.set(thread!, { name: name!, text: parameters, step: steps.length })
      steps.push({ call: { name: name!, parameters, result: -1 }, phase: 'begin' })
    } else {
      const call = finished(name!, text)
      steps.push({ call, phase: 'begin' }, { call, phase: 'end' })
    }
  }
  return steps
}

function finished(name: string, text: string): SystemCall {
  const equals = text.lastIndexOf(' = ')
  const parameters = text.slice(0, text.lastIndexOf(')', equals))
  const result = Number(text.slice(equals + 3).split(' ', 1)[0])
  return { name, parameters, result: Number.isNaN(result) ? -1 : result }
}
