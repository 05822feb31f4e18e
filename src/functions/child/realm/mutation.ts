/**
 * What a map function may change, judged by its text alone, and rather once too often than not; see `failure.ts` for how this
 * gets there. A document has to be frozen only where it may be changed, which costs as much as a third of mapping it.
 */
export interface Mutation {
  /** Whether the function may change its document. */
  mayChange(source: string): boolean
  /** Whether all that it emits stays as it is, and has a text that no code of its own takes part in. */
  isSteady(source: string): boolean
}

export function realmMutation(): Mutation {
  const changes = [
    // Words that lead to code that is not looked at here, and methods that change what they are called on.
    /\b(?:eval|Function|require|with|delete|arguments|this|Reflect|call|apply|bind|constructor|prototype|__proto__)\b/,
    /\b(?:push|pop|shift|unshift|splice|sort|reverse|fill|copyWithin)\b/,
    /\bObject\b(?!\s*\.\s*(?:keys|values|entries)\b)/,
    /\bArray\b(?!\s*\.\s*isArray\b)/,
    // Methods that are named by what nobody knows.
    /\]\s*(?:\?\.\s*)?[(`]/,
    // Assignments to members: plain ones and those with an operator.
    /(?:\.\s*[\w$]+|\])\s*(?:[-+*/%^]|\*\*|<<|>>>?|&&?|\|\|?|\?\?)?=(?![=>])/,
    /(?:\.\s*[\w$]+|\])\s*(?:\+\+|--)|(?:\+\+|--)\s*[\w$]+\s*[.[]/,
    // Assignments by patterns, and names in disguise.
    /[\]}]\s*=(?![=>])|\bfor\s*\((?!\s*(?:var|let|const)\b|\s*[\w$]*\s*[=;])|\\u/,
    // Comments where there may be blanks.
    /\*\/\s*(?:[-+*/%^&|?<>]*=(?![=>])|\+\+|--|[[(`])|\.\s*\/[*/]|\/\/[^\n]*\n\s*(?:[-+*/%^&|?<>]*=|\+\+|--|[[(`])/,
  ]
  const surprises = [
    // Values whose text is made by code, or changes with what is done to them.
    /\b(?:get|set|set[A-Z]\w*|toJSON|Proxy)\b|__define/,
    // Numbers that have no text.
    /\b\d\w*n\b|Big[IU]/,
  ]
  const has = (source: string, signs: readonly RegExp[]): boolean => signs.some((sign) => sign.test(source))
  const mayChange = (source: string): boolean => has(source, changes)

  return { mayChange, isSteady: (source) => !mayChange(source) && !has(source, surprises) }
}
