/**
 * What map functions may change, judged by their text alone, and rather once too often than not. A document has to be frozen
 * only where it may be changed, which costs as much as a third of mapping it.
 */
export interface Mutation {
  /** Whether a function may change its document. */
  readonly mayChange: boolean
  /** Whether all that they emit stays as it is, and has a text that no code of theirs takes part in. */
  readonly isSteady: boolean
}

export function mutationBy(sources: readonly string[]): Mutation {
  const mayChange = sources.some((source) => has(source, CHANGES))
  return { mayChange, isSteady: !mayChange && !sources.some((source) => has(source, SURPRISES)) }
}

const CHANGES = [
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

const SURPRISES = [
  // Values whose text is made by code, or changes with what is done to them.
  /\b(?:get|set|set[A-Z]\w*|toJSON|Proxy)\b|__define/,
  // Numbers that have no text.
  /\b\d\w*n\b|Big[IU]/,
]

function has(source: string, signs: readonly RegExp[]): boolean {
  return signs.some((sign) => sign.test(source))
}
