/**
 * What clients saw of one document that is edited by compare-and-set. Revisions have numbers that go up by one, so the history is
 * linearisable when a number is one revision for everybody, no operation that begins after another one has ended sees a
 * lower number, and no revision is seen that nobody wrote or that was refused. An edit whose reply was lost may have happened.
 */

/** A revision as a reader sees it: the attempt that wrote it is in its body. */
export interface Seen {
  readonly rev: string
  readonly attempt: string
}

interface Attempt {
  readonly number: number
  readonly outcome: 'unknown' | 'acknowledged' | 'refused'
}

export class Register {
  readonly #name: string
  readonly #problems: string[]
  /** The highest number that an operation has ended with. */
  #highest = 0
  /** The revision of each number, as far as anybody saw it. */
  readonly #revisions = new Map<number, string>()
  readonly #acknowledged = new Set<string>()
  readonly #attempts = new Map<string, Attempt>()
  /** The highest number that an edit was begun for. */
  #begun = 0

  constructor(name: string, problems: string[]) {
    this.#name = name
    this.#problems = problems
  }

  /** What an operation that begins now must see at least. */
  get highest(): number {
    return this.#highest
  }

  /** An edit begins. It has happened or not until its reply says so. */
  begin(attempt: string, parent: string | undefined): void {
    const number = numberOf(parent) + 1
    this.#attempts.set(attempt, { number, outcome: 'unknown' })
    this.#begun = Math.max(this.#begun, number)
  }

  acknowledge(attempt: string, rev: string): void {
    const { number } = this.#settle(attempt, 'acknowledged')
    if (numberOf(rev) !== number) this.#problem(`${attempt} wrote ${rev}, and its parent has the number ${number - 1}`)
    this.#acknowledged.add(rev)
    this.#note(rev)
  }

  /** It was answered that another edit came first. */
  refuse(attempt: string): void {
    this.#settle(attempt, 'refused')
  }

  /** A read that began when `before` was the highest number. Undefined where there was no document. */
  see(before: number, seen: Seen | undefined): void {
    const number = numberOf(seen?.rev)
    if (number < before) this.#problem(`was ${number} after ${before} was seen`)
    if (!seen) return
    const attempt = this.#attempts.get(seen.attempt)
    if (attempt?.number !== number) this.#problem(`is ${seen.rev} by ${seen.attempt}, and nobody wrote that`)
    if (attempt?.outcome === 'refused') this.#problem(`is ${seen.rev}, and ${seen.attempt} was refused`)
    this.#note(seen.rev)
  }

  /** A feed shows that it was written. */
  announce(rev: string): void {
    if (numberOf(rev) > this.#begun) this.#problem(`changed to ${rev}, and nobody wrote that`)
    this.#note(rev)
  }

  /** When all is quiet: the last revision and those before it, newest first. */
  end(line: readonly string[]): void {
    const last = numberOf(line[0])
    const oldest = last - line.length + 1
    if (last < this.#highest) this.#problem(`is at ${last}, and ${this.#highest} was seen`)
    for (const rev of line) this.#note(rev)
    for (const rev of this.#acknowledged) {
      if (numberOf(rev) >= oldest && !line.includes(rev)) this.#problem(`has lost ${rev}`)
    }
    for (const [attempt, { number, outcome }] of this.#attempts) {
      if (outcome === 'refused' && number > last) this.#problem(`refused ${attempt}, and no other edit came first`)
    }
  }

  #settle(attempt: string, outcome: Attempt['outcome']): Attempt {
    const { number } = this.#attempts.get(attempt) ?? { number: 0 }
    const settled: Attempt = { number, outcome }
    this.#attempts.set(attempt, settled)
    return settled
  }

  #note(rev: string): void {
    const number = numberOf(rev)
    const other = this.#revisions.get(number)
    if (other !== undefined && other !== rev) this.#problem(`is ${rev}, and was ${other}`)
    this.#revisions.set(number, rev)
    this.#highest = Math.max(this.#highest, number)
  }

  #problem(what: string): void {
    this.#problems.push(`${this.#name} ${what}.`)
  }
}

function numberOf(rev: string | undefined): number {
  return rev === undefined ? 0 : Number.parseInt(rev, 10)
}
