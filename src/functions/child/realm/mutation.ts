/**
 * Whether a map function may change its document: only then the document has to be frozen, which costs as much as a third of
 * mapping it. Judged by the text alone, and rather once too often than not; see `failure.ts` for how this gets there.
 */
export type MayChange = (source: string) => boolean

export function realmMutation(): MayChange {
  const signs = [
    // Words that lead to code that is not looked at here, and methods that change what they are called on.
    /\b(?:eval|Function|require|with|delete|arguments|this|Reflect|call|apply|bind|constructor|prototype|__proto__)\b/,
    /\b(?:push|pop|shift|unshift|splice|sort|reverse|fill|copyWithin)\b/,
    /\bObject\b(?!\s*\.\s*(?:keys|values|entries)\b)/,
    /\bArray\b(?!\s*\.\s*isArray\b)/,
    // Assignments to members: plain ones and those with an operator.
    /(?:\.\s*[\w$]+|\])\s*(?:[-+*/%^]|\*\*|<<|>>>?|&&?|\|\|?|\?\?)?=(?![=>])/,
    /(?:\.\s*[\w$]+|\])\s*(?:\+\+|--)|(?:\+\+|--)\s*[\w$]+\s*[.[]/,
    // Assignments by patterns, and names in disguise.
    /[\]}]\s*=(?![=>])|\bfor\s*\((?!\s*(?:var|let|const)\b|\s*[\w$]*\s*[=;])|\\u/,
  ]
  return (source) => signs.some((sign) => sign.test(source))
}
