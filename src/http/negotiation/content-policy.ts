/**
 * What a browser may do with what others put here: attachments, and what functions return. Both come from the same origin
 * as the server itself, so that scripts in them act for whoever looks at them. The policies of `[csp]` keep them apart.
 */
import type { Configuration } from '../../config/configuration.ts'
import type { Headers } from '../server/answer.ts'
import { requestSettings } from '../server/request-settings.ts'

export type PolicyKind = 'attachments' | 'showlist' | 'utils'

/** Its type is what the server says, and not what a browser finds in the bytes. */
export const NO_SNIFFING: Headers = { 'X-Content-Type-Options': 'nosniff' }

/** Nothing where the operator has not switched it on. */
export function contentPolicy(configuration: Configuration, kind: PolicyKind): Headers {
  const value = requestSettings(configuration).contentPolicies[kind]
  return value === undefined ? NONE : { 'Content-Security-Policy': value }
}

const NONE: Headers = {}
