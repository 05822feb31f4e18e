/** Bytes that are no request. Whoever sent them is told the status, and nothing that follows is read. */
export class Refusal extends Error {
  readonly status: number
  /** The identifier of the error, where the reply has a body that explains it. */
  readonly error: string | undefined

  constructor(status: number, message: string, error?: string) {
    super(message)
    this.status = status
    this.error = error
  }
}

export function malformed(message: string): Refusal {
  return new Refusal(400, message)
}
