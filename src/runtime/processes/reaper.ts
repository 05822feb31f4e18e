/**
 * Ends the processes that this one has started when this one is killed and cannot do it: functions that never end, and
 * processes that hang or were stopped, would otherwise go on without a server. The reaper is one small shell beside us. It reads
 * from a pipe which processes there are, and when the pipe closes it kills those that are left.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { extname, join } from 'node:path'
import type { Writable } from 'node:stream'
import { processStart } from '../../storage/leases/process-records.ts'
import { lowerPriority } from './lower-priority.ts'

/** Each entry is `<pid>:<what to kill>:<start>`. A process that was started at another time only has the same id. */
const SCRIPT = `
trap '' HUP INT TERM
entries=
while read -r action pid entry; do
  if [ "$action" = + ]; then entries="$entries $pid:$entry"; continue; fi
  left=
  for each in $entries; do [ "\${each%%:*}" = "$pid" ] || left="$left $each"; done
  entries=$left
done
for each in $entries; do
  pid=\${each%%:*}
  rest=\${each#*:}
  target=\${rest%%:*}
  start=\${rest#*:}
  if [ -r "/proc/$pid/stat" ]; then
    read -r stat < "/proc/$pid/stat"
    set -- \${stat##*) }
    [ "\${20}" = "$start" ] || continue
  elif [ -d /proc/self ]; then
    # A group may outlive the process that led it.
    [ "$target" = "-$pid" ] || continue
  else
    parent=$(ps -o ppid= -p "$pid")
    [ "$((parent))" = 1 ] || continue
  fi
  kill -9 "$target"
done
`

/** How long the reaper is kept without processes to watch. */
const IDLE_MS = 10_000

/** It is started together with the process that it is for, which should come first. */
const NICENESS = 5

const launcherFile = join(import.meta.dirname, `closing-launcher${extname(import.meta.filename)}`)

class Reaper {
  /** By process id: the line that announces it to the shell. */
  readonly #entries = new Map<number, string>()
  #shell: ChildProcess | undefined
  /** Whether it stays when there is nobody to watch over. */
  #isKept = false
  #idle: NodeJS.Timeout | undefined

  /** Without the launcher, which takes a processor for long: there are no databases whose descriptors it would have to close. */
  startAhead(): void {
    if (this.#shell) return
    this.#isKept = true
    this.#start('/bin/sh', [])
  }

  add(pid: number, target: number): void {
    clearTimeout(this.#idle)
    const line = `+ ${pid} ${target}:${process.platform === 'linux' ? processStart(pid) : ''}\n`
    this.#entries.set(pid, line)
    if (this.#shell) this.#send(line)
    else this.#start(process.execPath, ['--no-warnings', launcherFile])
  }

  remove(pid: number): void {
    if (!this.#entries.delete(pid)) return
    this.#send(`- ${pid}\n`)
    if (this.#entries.size > 0 || this.#isKept) return
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => this.#end(), IDLE_MS).unref()
  }

  /** In its own process group, so that signals to the server's group do not reach it. It must hold no descriptors of databases. */
  #start(program: string, args: readonly string[]): void {
    const shell = spawn(program, [...args, '-c', SCRIPT], {
      stdio: ['pipe', 'ignore', 'ignore'],
      env: { PATH: process.env.PATH },
      cwd: '/',
      detached: true,
    })
    this.#shell = shell
    if (shell.pid !== undefined) lowerPriority(shell.pid, NICENESS)
    // Where it cannot be started, or is killed, the next process that is added gets a new one.
    const forget = () => {
      if (this.#shell === shell) this.#shell = undefined
    }
    shell.on('error', forget).on('exit', forget)
    shell.stdin?.on('error', forget)
    shell.unref()
    unref(shell.stdin)
    for (const line of this.#entries.values()) this.#send(line)
  }

  #send(line: string): void {
    this.#shell?.stdin?.write(line)
  }

  #end(): void {
    this.#shell?.stdin?.end()
    this.#shell = undefined
  }
}

function unref(stream: Writable | null): void {
  if (stream && 'unref' in stream && typeof stream.unref === 'function') stream.unref()
}

let reaper: Reaper | undefined = new Reaper()

/**
 * Starts the reaper before the first process that it is for. Only for a process that has opened no database yet: the reaper would
 * inherit its descriptors.
 */
export function startReaperAhead(): void {
  if (process.platform !== 'win32') reaper?.startAhead()
}

/** The parent of this process ends it together with all that it starts: no reaper is needed here. */
export function disableReaper(): void {
  reaper = undefined
}

/** From now on the process ends with this one, however this one ends. */
export function endWithUs(child: ChildProcess): void {
  watchOver(child, (pid) => pid)
}

/** The same for the leader of a process group and all of the group. */
export function endGroupWithUs(leader: ChildProcess): void {
  watchOver(leader, (pid) => -pid)
}

function watchOver(child: ChildProcess, targetOf: (pid: number) => number): void {
  const { pid } = child
  // It could not be started.
  if (pid === undefined || process.platform === 'win32') return
  reaper?.add(pid, targetOf(pid))
  child.once('exit', () => reaper?.remove(pid))
}
