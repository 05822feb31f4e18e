/** What a check finds wrong with a database or an index. */

export interface Fault {
  /** The document that it concerns; undefined where it concerns all of them. */
  readonly document?: string | undefined
  /** A sentence. */
  readonly problem: string
  /** Whether what is wrong can be made again from what is right. */
  readonly isRepairable: boolean
}

export interface CheckListener {
  fault(fault: Fault): void
  /** `share` is between 0 and 1. */
  progress(share: number): void
}

export function faultText({ document, problem }: Fault): string {
  return document === undefined ? problem : `document '${document}': ${problem}`
}
