/**
 * The functions in which a process spent its time, read from the profile that `node --cpu-prof` leaves: in the
 * function itself, and in it together with all that it called.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { percent, printTable } from './report.ts'

const SHOWN = 25

export function printProfile(folder: string, pid: number): void {
  const profiles = readdirSync(folder)
    .filter((name) => name.endsWith('.cpuprofile') && name.split('.').includes(String(pid)))
    .map((name): Profile => JSON.parse(readFileSync(join(folder, name), 'utf8')))
  // The command replaces its process once at the start; what came before is a profile too, a short one.
  const longest = profiles.sort((a, b) => b.samples.length - a.samples.length)[0]
  if (!longest) throw new Error(`There is no profile in ${folder}.`)
  const { own, whole } = functionTimes(longest)
  const busy = [...own].reduce((sum, [name, time]) => (name === IDLE ? sum : sum + time), 0)
  console.log(`\nprofile in ${folder}`)
  printTimes('in the function itself', own, busy)
  printTimes('with all that it called', whole, busy)
}

function printTimes(title: string, times: ReadonlyMap<string, number>, busy: number): void {
  const rows = [...times].filter(([name]) => name !== IDLE && name !== '(root)')
  const most = rows.sort((a, b) => b[1] - a[1]).slice(0, SHOWN)
  console.log()
  printTable(
    [title, 'of the busy time'],
    most.map(([name, time]) => [name, percent(time / busy)]),
  )
}

const IDLE = '(idle)'

interface ProfileNode {
  readonly id: number
  readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number }
  readonly children?: readonly number[]
}

interface Profile {
  readonly nodes: readonly ProfileNode[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

interface FunctionTimes {
  readonly own: ReadonlyMap<string, number>
  readonly whole: ReadonlyMap<string, number>
}

function functionTimes({ nodes, samples, timeDeltas }: Profile): FunctionTimes {
  const stacks = stacksOf(nodes)
  const own = new Map<string, number>()
  const whole = new Map<string, number>()
  for (const [i, id] of samples.entries()) {
    const stack = stacks.get(id)!
    add(own, stack[0]!, timeDeltas[i]!)
    // A function that calls itself counts once.
    for (const name of new Set(stack)) add(whole, name, timeDeltas[i]!)
  }
  return { own, whole }
}

/** The names from each node up to the root. Parents stand before their children in a profile. */
function stacksOf(nodes: readonly ProfileNode[]): Map<number, string[]> {
  const stacks = new Map<number, string[]>()
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)))
  for (const { id, callFrame } of nodes)
    stacks.set(id, [nameOf(callFrame), ...(stacks.get(parents.get(id) ?? -1) ?? [])])
  return stacks
}

function add(times: Map<string, number>, name: string, time: number): void {
  times.set(name, (times.get(name) ?? 0) + time)
}

function nameOf({ functionName, url, lineNumber }: ProfileNode['callFrame']): string {
  const file = url.split('/').slice(-2).join('/')
  if (file === '') return functionName || '(native)'
  return `${functionName || '(anonymous)'} ${file}:${lineNumber + 1}`
}
