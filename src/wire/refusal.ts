/** Bytes that are no request. Whoever sent them is told the status, and nothing that follows is read. */
export class Refusal extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export function malformed(message: string): Refusal {
  return new Refusal(400, message)
}
