/** What is wrong with a selector: the identifiers and reasons of the interface. */
import { RequestError } from '../document/request-error.ts'

/** Longer values are cut in a reason. */
const SHOWN_CHARACTERS = 200

export function selectorError(error: string, reason: string): RequestError {
  return new RequestError('invalid', error, reason)
}

export function badArgument(operator: string, argument: unknown): RequestError {
  return selectorError('bad_arg', `Bad argument for operator ${operator}: ${shown(argument)}`)
}

export function invalidOperator(operator: string): RequestError {
  return selectorError('invalid_operator', `Invalid operator: ${operator}`)
}

export function unsupportedOperator(operator: string): RequestError {
  return selectorError('not_supported', `Unsupported operator: ${operator}`)
}

export function missingFieldName(): RequestError {
  return selectorError('invalid_selector', 'One or more conditions is missing a field name.')
}

export function invalidFieldName(name: string): RequestError {
  return selectorError('invalid_field_name', `Invalid field name: ${shown(name)}`)
}

/** A value as a reason shows it: JSON, or the text itself. */
export function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'undefined')
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text
}
