/** Compiles the source of a user function. */
import type { Failures } from './failure.ts'

export type UserFunction = (this: unknown, ...input: unknown[]) => unknown

/** Throws a `compilation_error` where the source is no function. */
export type Compile = (source: string) => UserFunction

export function realmCompiler({ failure }: Failures): Compile {
  // biome-ignore lint/security/noGlobalEval: this is where user code is evaluated, inside the isolate
  const evaluate = globalThis.eval
  const ParseError = SyntaxError

  /** As a script, in global scope: its last value counts. */
  const attempt = (script: string): { value?: unknown; error?: unknown } => {
    try {
      return { value: evaluate(script) }
    } catch (error) {
      return { error }
    }
  }

  /** One expression; or statements whose last value counts; or an expression with semicolons behind it. */
  const valueIn = (source: string): unknown => {
    const asExpression = attempt(`(${source}\n)`)
    if (!('error' in asExpression)) return asExpression.value
    if (!(asExpression.error instanceof ParseError)) throw asExpression.error
    const asScript = attempt(source)
    if (typeof asScript.value === 'function') return asScript.value
    const asList = attempt(`0,${source}`)
    if (!('error' in asList)) return asList.value
    if (!('error' in asScript)) return asScript.value
    throw asList.error
  }

  return (source) => {
    let value: unknown
    try {
      value = valueIn(source)
    } catch (error) {
      throw failure('compilation_error', `${error} (${source})`)
    }
    if (typeof value === 'function') return value as UserFunction
    throw failure('compilation_error', `Expression does not eval to a function. (${source})`)
  }
}
