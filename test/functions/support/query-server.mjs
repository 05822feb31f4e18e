/**
 * A small query server, as an operator might bring one: functions are JavaScript, run in this very process. They are
 * trusted, so a test can make it misbehave from within one: `process.exit(3)`, `write('garbage')`, `sleep()`.
 */
import { readSync, writeSync } from 'node:fs'
import { runInThisContext } from 'node:vm'

let unread = Buffer.alloc(0)

function readLine() {
  const chunk = Buffer.alloc(65536)
  while (!unread.includes(10)) {
    const length = readSync(0, chunk)
    if (length === 0) process.exit(0)
    unread = Buffer.concat([unread, chunk.subarray(0, length)])
  }
  const end = unread.indexOf(10)
  const line = unread.subarray(0, end).toString()
  unread = unread.subarray(end + 1)
  return line
}

function write(line) {
  let bytes = Buffer.from(`${line}\n`)
  while (bytes.length > 0) {
    try {
      bytes = bytes.subarray(writeSync(1, bytes))
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error
    }
  }
}

const say = (value) => write(JSON.stringify(value))

globalThis.write = write
globalThis.log = (text) => say(['log', text])
globalThis.sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
globalThis.emit = (key, value) => emitted.push([key ?? null, value ?? null])
globalThis.settings = {}
globalThis.library = undefined

/** Thrown values that are errors of the protocol. */
class Failure {
  constructor(verb, id, reason) {
    this.message = [verb, id, reason]
  }
}
globalThis.fail = (id, reason) => {
  throw new Failure('error', id, reason)
}
globalThis.fatal = (id, reason) => {
  throw new Failure('fatal', id, reason)
}

function compiled(source) {
  try {
    const value = runInThisContext(`(${source})`)
    if (typeof value === 'function') return value
  } catch {
    // Told below.
  }
  throw new Failure('error', 'compilation_error', `It is no function. (${source})`)
}

const designs = new Map()
let emitted = []
let maps = []

function mapped(map, document) {
  emitted = []
  map(document)
  return emitted
}

function reduced(sources, keys, values, isRereduce) {
  return [true, sources.map((source) => compiled(source)(keys, values, isRereduce) ?? null)]
}

const COMMANDS = {
  reset: (settings = {}) => {
    maps = []
    globalThis.library = undefined
    globalThis.settings = settings
    return true
  },
  add_lib: (library) => {
    globalThis.library = library
    return true
  },
  add_fun: (source) => {
    maps.push(compiled(source))
    return true
  },
  map_doc: (document) => maps.map((map) => mapped(map, document)),
  reduce: (sources, rows) =>
    reduced(
      sources,
      rows.map(([key]) => key),
      rows.map(([, value]) => value),
      false,
    ),
  rereduce: (sources, values) => reduced(sources, null, values, true),
  ddoc: (id, path, parameters, ...rest) =>
    id === 'new' ? learned(path, parameters) : called(id, path, parameters, rest),
}

function learned(id, design) {
  designs.set(id, design)
  return true
}

function called(id, path, parameters) {
  const design = designs.get(id)
  if (!design) throw new Failure('fatal', 'query_protocol_error', `uncached design doc: ${id}`)
  const source = path.reduce((object, name) => object?.[name], design)
  if (source === undefined) throw new Failure('error', 'not_found', `missing ${path[0]} function ${path[1]} on ${id}`)
  const call = compiled(source)
  switch (path[0]) {
    case 'shows':
      return ['resp', call(...parameters)]
    case 'updates':
      return ['up', ...call(...parameters)]
    case 'filters':
      return [true, parameters[0].map((document) => Boolean(call(document, parameters[1])))]
    case 'views':
      return [true, parameters[0].map((document) => mapped(call, document).length > 0)]
    case 'validate_doc_update':
      return validated(call, parameters)
    case 'lists':
      return listed(call, parameters)
    default:
      throw new Failure('fatal', 'unknown_command', `unknown ddoc command '${path[0]}'`)
  }
}

function validated(call, parameters) {
  try {
    call(...parameters)
    return 1
  } catch (error) {
    if (error?.forbidden !== undefined || error?.unauthorized !== undefined) return error
    throw error
  }
}

/** A list says what it has so far whenever it wants a row, and blocks until there is one. */
function listed(call, parameters) {
  let chunks = []
  let head = {}
  let hasBegun = false
  let isOver = false
  const output = (verb) => {
    const message = hasBegun && verb !== 'start' ? [verb, chunks] : ['start', chunks, head]
    if (head !== undefined && message.length === 2) message.push(head)
    hasBegun = true
    chunks = []
    head = undefined
    return message
  }
  globalThis.start = (response) => {
    head = response
  }
  globalThis.send = (chunk) => chunks.push(String(chunk))
  globalThis.getRow = () => {
    if (isOver) return null
    say(output('chunks'))
    const [verb, row] = JSON.parse(readLine())
    if (verb === 'list_row') return row
    isOver = true
    return null
  }
  const tail = call(...parameters)
  if (!hasBegun) getRow()
  if (tail !== undefined) chunks.push(String(tail))
  return output('end')
}

for (;;) {
  const [verb, ...parameters] = JSON.parse(readLine())
  try {
    if (!Object.hasOwn(COMMANDS, verb)) throw new Failure('fatal', 'unknown_command', `unknown command '${verb}'`)
    say(COMMANDS[verb](...parameters))
  } catch (error) {
    if (error instanceof Failure) say(error.message)
    else say(['error', error?.name ?? 'unnamed_error', error?.message ?? String(error)])
  }
}
