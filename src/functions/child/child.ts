/**
 * A sandbox process: reads a frame, runs it, writes the result, until the server closes the pipe. It has no files, sockets or
 * timers. The server watches and ends it.
 */
import assert from 'node:assert/strict'
import { closeInheritedDescriptors } from '../../runtime/processes/inherited-descriptors.ts'
import { MARKS, type Outcome, type RealmHost } from '../realm/interface.ts'
import { OPERATIONS, PORTION_HEADER_BYTES, Reply, Request } from '../sandbox/frame.ts'
import { receive, send, sendText } from './pipe.ts'
import { Program, type ProgramText } from './program.ts'

/** What functions may log in a call, and of that in a line. */
const LOGGED_CHARACTERS = 1024 * 1024
const LONGEST_LINE = 16 * 1024

/** Half of the time that the server grants beyond the limit. */
const SIGN_MS = 50

/** How the process ends when an isolate ran out of memory or worse. */
const LOST_ISOLATE = 1

const programs = new Map<number, Program>()
let logged = 0
let lastSign = 0

const host: RealmHost = {
  log(line) {
    logged += line.length + 1
    // From here on the clock runs, however much is logged.
    if (logged > LOGGED_CHARACTERS) return false
    sendText(Reply.log, line.slice(0, LONGEST_LINE))
    return true
  },
  exchange(output) {
    sendText(Reply.output, output)
    const frame = receive()
    if (frame?.kind === Request.rows) return frame.body.toString()
    if (frame?.kind === Request.noMoreRows) return undefined
    return end(0)
  },
}

function load(number: number, body: Buffer): void {
  const text: ProgramText = JSON.parse(body.toString())
  drop(number)
  logged = 0
  guarded(() => programs.set(number, new Program(text, host, () => end(LOST_ISOLATE))))
}

function drop(number: number): void {
  programs.get(number)?.drop()
  programs.delete(number)
}

function call(number: number, body: Buffer): void {
  const program = programs.get(number)
  const operation = OPERATIONS[body[0] ?? OPERATIONS.length]
  logged = 0
  guarded(() => {
    assert(program && operation)
    if (operation === 'map') map(program, body)
    else answer(program, operation, body.toString('utf8', 1))
  })
}

function answer(program: Program, operation: string, input: string): void {
  let output = ''
  let [mark, text] = program.call(operation, input)
  while (mark === MARKS.more) {
    output += text
    ;[mark, text] = next(program)
  }
  if (mark === MARKS.done) sendText(Reply.result, output + text)
  else sendText(Reply.error, text)
}

/** Documents come in portions that are small enough for the youngest part of a heap. */
function map(program: Program, body: Buffer): void {
  const { rows } = program
  rows.clear()
  if (program.failure) {
    sendText(Reply.error, program.failure[1])
    return
  }
  for (let at = 1; at < body.length; ) {
    const count = body.readUInt32LE(at)
    const start = at + PORTION_HEADER_BYTES
    at = start + body.readUInt32LE(at + 4)
    const first = rows.documents
    const documents = body.toString('utf8', start, at)
    const onProblem = (document: number, error: unknown) => {
      const id: unknown = JSON.parse(documents)[document - first]?._id
      host.log(`function raised exception ${error} with doc._id ${id}`)
    }
    let [mark, text] = program.call('map', documents)
    for (; mark === MARKS.more; [mark, text] = next(program)) rows.add(text, onProblem)
    if (mark !== MARKS.done) {
      sendText(Reply.error, text)
      return
    }
    rows.add(text, onProblem)
    assert(rows.documents === first + count, 'A document is missing.')
    showLife()
  }
  send(Reply.result, rows.parts())
}

/** A long batch signals that it is alive, but not with every portion. */
function showLife(): void {
  const now = performance.now()
  if (now - lastSign < SIGN_MS) return
  lastSign = now
  logged = 0
  send(Reply.progress, [])
}

function next(program: Program): Outcome {
  logged = 0
  send(Reply.progress, [])
  return program.more()
}

/** An isolate that cannot be entered any more is not the only thing that may be broken then. */
function guarded(work: () => void): void {
  try {
    work()
  } catch (error) {
    process.stderr.write(`${error}\n`)
    end(LOST_ISOLATE)
  }
}

function end(status: number): never {
  process.exit(status)
}

closeInheritedDescriptors()
send(Reply.ready, [])
for (let frame = receive(); frame; frame = receive()) {
  const { kind, number, body } = frame
  if (kind === Request.load) load(number, body)
  else if (kind === Request.drop) drop(number)
  else if (kind === Request.call) call(number, body)
  else end(LOST_ISOLATE)
}
