/** A value that a client sets again and again: after a crash it is the one that was acknowledged last, or the one after. */
export class Register<T> {
  readonly #name: string
  #acknowledged: T
  #underWay: { readonly value: T } | undefined
  acknowledgements = 0

  constructor(name: string, initial: T) {
    this.#name = name
    this.#acknowledged = initial
  }

  get value(): T {
    return this.#acknowledged
  }

  /** Whether nothing was begun that may or may not have happened. */
  get isCertain(): boolean {
    return this.#underWay === undefined
  }

  /** Said before the request is sent. */
  begin(value: T): void {
    this.#underWay = { value }
  }

  acknowledge(): void {
    if (this.#underWay) this.#acknowledged = this.#underWay.value
    this.#underWay = undefined
    this.acknowledgements++
  }

  /** What is there after a crash; a sentence where that cannot be. */
  settle(found: T): string[] {
    const isPossible = found === this.#acknowledged || (this.#underWay !== undefined && found === this.#underWay.value)
    const problem = `${this.#name} is ${found} after ${this.#acknowledged} was acknowledged and ${this.#underWay?.value} begun.`
    this.#underWay = undefined
    if (!isPossible) return [problem]
    this.#acknowledged = found
    return []
  }
}
