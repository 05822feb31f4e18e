/**
 * Plays recorded system calls onto a simulated disk, step by step, and keeps the acknowledgements that had gone out by
 * then. Calls that it does not know how to play are errors, never passed over.
 */
import { type Acknowledgement, parseAcknowledgements } from '../store/acknowledgements.ts'
import { type Change, SimulatedDisk, SimulatedFile, SimulatedFolder } from './simulated-disk.ts'
import type { Step, SystemCall } from './system-calls.ts'

const STANDARD_OUTPUT = 1

interface OpenFile {
  readonly path: string
  readonly node: SimulatedFile | SimulatedFolder
  /** Opened with O_DSYNC or O_SYNC: a write is on disk when it ends. */
  readonly flushesWrites: boolean
  /** Opened with O_APPEND: writes go to the end, wherever that is. */
  readonly appends: boolean
  position: number
}

/** What ends with the call that is under way. */
type Ending = () => void

export interface ReplayOptions {
  readonly folder: string
  readonly onAcknowledgement: (acknowledgement: Acknowledgement) => void
  /** A disk that says it flushed the names in a folder, and did not: for tests of the test. */
  readonly forgetsNames?: boolean
}

export class Replay {
  readonly disk: SimulatedDisk
  readonly #onAcknowledgement: ReplayOptions['onAcknowledgement']
  readonly #forgetsNames: boolean
  readonly #open = new Map<number, OpenFile>()
  readonly #endings = new Map<SystemCall, Ending>()

  constructor({ folder, onAcknowledgement, forgetsNames = false }: ReplayOptions) {
    this.disk = new SimulatedDisk(folder)
    this.#onAcknowledgement = onAcknowledgement
    this.#forgetsNames = forgetsNames
  }

  /** Whether the step had to do with the folder, or was an acknowledgement. */
  play({ call, phase }: Step): boolean {
    if (phase === 'end') {
      const ending = this.#endings.get(call)
      this.#endings.delete(call)
      ending?.()
      return ending !== undefined
    }
    if (call.result < 0) return false
    const ending = this.#begin(call)
    if (ending) this.#endings.set(call, ending)
    return ending !== undefined
  }

  #begin(call: SystemCall): Ending | undefined {
    switch (call.name) {
      case 'open':
      case 'openat':
      case 'creat':
        return this.#openFile(call)
      case 'mkdir':
      case 'mkdirat':
        return this.#named(call, ([path]) => this.disk.create(path!, new SimulatedFolder()))
      case 'unlink':
      case 'unlinkat':
      case 'rmdir':
        return this.#named(call, ([path]) => this.disk.remove(path!))
      case 'rename':
      case 'renameat':
      case 'renameat2':
        return this.#named(call, ([from, to]) => this.disk.rename(from!, to!))
      default:
        return this.#onDescriptor(call)
    }
  }

  #openFile(call: SystemCall): Ending | undefined {
    const [path] = texts(call)
    if (path === undefined || !this.disk.holds(path)) return undefined
    const flags = withoutTexts(call)
    const present = this.disk.at(path)
    const node = present ?? new SimulatedFile()
    const created = present ? undefined : this.disk.create(path, node)
    if (flags.includes('O_TRUNC') && node instanceof SimulatedFile && node.size > 0) throw unknown(call)
    const appends = flags.includes('O_APPEND')
    const file: OpenFile = { path, node, flushesWrites: /O_D?SYNC/.test(flags), appends, position: 0 }
    return () => {
      if (created) created.done = true
      this.#open.set(call.result, file)
    }
  }

  #named(call: SystemCall, change: (paths: readonly string[]) => Change): Ending | undefined {
    const paths = texts(call)
    if (!paths.some((path) => this.disk.holds(path))) return undefined
    const begun = change(paths)
    return () => {
      begun.done = true
    }
  }

  #onDescriptor(call: SystemCall): Ending | undefined {
    if (call.name === 'mmap') return this.#map(call)
    const descriptor = Number.parseInt(call.parameters, 10)
    if (call.name === 'write' && descriptor === STANDARD_OUTPUT) return this.#acknowledge(call)
    const file = this.#open.get(descriptor)
    if (!file) return undefined
    const { node } = file
    switch (call.name) {
      case 'close':
        this.#open.delete(descriptor)
        return () => {}
      case 'dup':
      case 'dup2':
      case 'dup3':
        return () => this.#open.set(call.result, file)
      case 'fcntl':
        if (!call.parameters.includes('F_DUPFD')) return undefined
        return () => this.#open.set(call.result, file)
      case 'lseek':
        file.position = call.result
        return () => {}
      case 'read':
      case 'readv':
        file.position += call.result
        return undefined
      case 'fsync':
      case 'fdatasync':
        return this.#flush(node)
      case 'ftruncate':
        if (!(node instanceof SimulatedFile)) throw unknown(call)
        return finish(node.truncate(Number(call.parameters.split(',')[1])))
      case 'write':
      case 'writev':
        if (file.appends && node instanceof SimulatedFile) file.position = node.size
        file.position += call.result
        return this.#write(call, file, file.position - call.result)
      case 'pwrite64':
      case 'pwritev':
        return this.#write(call, file, Number(call.parameters.slice(call.parameters.lastIndexOf(',') + 1)))
      default:
        throw unknown(call)
    }
  }

  #write(call: SystemCall, { node, flushesWrites }: OpenFile, at: number): Ending {
    const data = Buffer.concat(bytes(call))
    if (!(node instanceof SimulatedFile) || data.length !== call.result) throw unknown(call)
    const change = node.write(at, data)
    return () => {
      change.done = true
      if (flushesWrites) node.settle([change])
    }
  }

  #flush(node: SimulatedFile | SimulatedFolder): Ending {
    if (node instanceof SimulatedFile) {
      const flushable = node.flushable()
      return () => node.settle(flushable)
    }
    const flushable = this.#forgetsNames ? [] : this.disk.flushable(node)
    return () => this.disk.settle(flushable)
  }

  /** Writing through memory would go past the record; only locks, which mean nothing after a crash, may do so. */
  #map(call: SystemCall): undefined {
    const [, , protection = '', flags = '', descriptor = ''] = call.parameters.split(', ')
    const file = this.#open.get(Number(descriptor))
    if (!file || isLock(file.path)) return
    if (protection.includes('PROT_WRITE') && flags.includes('MAP_SHARED')) throw unknown(call)
  }

  #acknowledge(call: SystemCall): Ending {
    for (const acknowledgement of parseAcknowledgements(texts(call).join(''))) this.#onAcknowledgement(acknowledgement)
    return () => {}
  }
}

export function isLock(path: string): boolean {
  return path.endsWith('-lock')
}

function finish(change: Change): Ending {
  return () => {
    change.done = true
  }
}

const TEXT = /"((?:\\x[0-9a-f]{2})*)"/g

function bytes({ parameters }: SystemCall): Buffer[] {
  return [...parameters.matchAll(TEXT)].map(([, text]) => Buffer.from(text!.replaceAll('\\x', ''), 'hex'))
}

function texts(call: SystemCall): string[] {
  return bytes(call).map(String)
}

function withoutTexts({ parameters }: SystemCall): string {
  return parameters.replaceAll(TEXT, '')
}

function unknown({ name, parameters }: SystemCall): Error {
  return new Error(`The simulated disk does not know ${name}(${parameters.slice(0, 200)})`)
}
