/** What was given as JSON is not JSON, or is more than is taken: too deep, a number out of range. `at` counts bytes. */
export class JsonTextError extends Error {
  override readonly name = 'JsonTextError'
  readonly at: number

  constructor(what: string, at: number) {
    super(`${what} at byte ${at}`)
    this.at = at
  }
}
