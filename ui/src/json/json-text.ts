/**
 * JSON as text. Numbers keep the digits and members the order that they have, which parsing and printing would change.
 * The text comes from the server or from the editor; what is not JSON is refused by `jsonError` first.
 */

export type TokenKind = 'key' | 'string' | 'number' | 'word' | 'mark'

export interface Token {
  readonly kind: TokenKind
  readonly text: string
}

/** The error message, or undefined if the text is JSON. */
export function jsonError(text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[-+.0-9eE]+|[a-z]+|[{}[\],:]/gy
const BLANK = /\s*/gy

function* rawTokens(text: string): Generator<{ text: string; start: number }> {
  let at = 0
  while (true) {
    BLANK.lastIndex = at
    BLANK.exec(text)
    at = BLANK.lastIndex
    if (at >= text.length) return
    TOKEN.lastIndex = at
    const [found] = TOKEN.exec(text) ?? []
    if (found === undefined) throw new Error(`Not valid JSON at character ${at + 1}.`)
    yield { text: found, start: at }
    at += found.length
  }
}

const INDENT = '  '

/** Indented by two, one member or item a line; empty ones on one line. Digits, escapes and order stay as they are. */
export function formatJson(text: string): string {
  return [...formattedTokens(text)].map((token) => token.text).join('')
}

/** The formatted text in coloured pieces; pieces of kind `mark` hold punctuation and white space. */
export function* formattedTokens(text: string): Generator<Token> {
  const tokens = [...rawTokens(text)]
  let depth = 0
  const isObject: boolean[] = []
  const line = () => `\n${INDENT.repeat(depth)}`
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index]!.text
    const next = tokens[index + 1]?.text
    if (token === '{' || token === '[') {
      const close = token === '{' ? '}' : ']'
      if (next === close) {
        yield { kind: 'mark', text: token + close }
        index++
        continue
      }
      depth++
      isObject.push(token === '{')
      yield { kind: 'mark', text: token + line() }
    } else if (token === '}' || token === ']') {
      depth--
      isObject.pop()
      yield { kind: 'mark', text: line() + token }
    } else if (token === ',') yield { kind: 'mark', text: `,${line()}` }
    else if (token === ':') yield { kind: 'mark', text: ': ' }
    else if (token.startsWith('"')) yield { kind: next === ':' ? 'key' : 'string', text: token }
    else yield { kind: /^[a-z]/.test(token) ? 'word' : 'number', text: token }
  }
}

export interface Member {
  readonly name: string
  /** Where its key begins. */
  readonly keyStart: number
  readonly valueStart: number
  readonly valueEnd: number
}

/** The members of an object, in their order; empty for anything else. */
export function topLevelMembers(text: string): Member[] {
  const members: Member[] = []
  let depth = 0
  let key: { name: string; start: number } | undefined
  let valueStart = -1
  let valueEnd = 0
  const finish = () => {
    if (key && valueStart >= 0) members.push({ name: key.name, keyStart: key.start, valueStart, valueEnd })
    key = undefined
    valueStart = -1
  }
  for (const token of rawTokens(text)) {
    const { text: piece, start } = token
    if (depth === 0) {
      if (piece !== '{') return []
      depth = 1
      continue
    }
    if (depth === 1 && (piece === ',' || piece === '}')) {
      finish()
      if (piece === '}') break
      continue
    }
    if (depth === 1 && !key) {
      key = { name: JSON.parse(piece), start }
      continue
    }
    if (depth === 1 && piece === ':') continue
    if (valueStart < 0) valueStart = start
    if (piece === '{' || piece === '[') depth++
    if (piece === '}' || piece === ']') depth--
    valueEnd = start + piece.length
  }
  return members
}

/** The text of one member's value. */
export function memberText(text: string, name: string): string | undefined {
  const member = topLevelMembers(text).find((candidate) => candidate.name === name)
  return member && text.slice(member.valueStart, member.valueEnd)
}

/** The same object with one member set; the others keep their text. */
export function withMember(text: string, name: string, valueText: string): string {
  const members = topLevelMembers(text)
  const member = members.find((candidate) => candidate.name === name)
  if (member) return text.slice(0, member.valueStart) + valueText + text.slice(member.valueEnd)
  const open = text.indexOf('{') + 1
  const separator = members.length > 0 ? ', ' : ''
  return `${text.slice(0, open)}${JSON.stringify(name)}: ${valueText}${separator}${text.slice(open)}`
}

/** The same object without some members. */
export function withoutMembers(text: string, names: readonly string[]): string {
  const kept = topLevelMembers(text).filter(({ name }) => !names.includes(name))
  return `{${kept.map(({ keyStart, valueEnd }) => text.slice(keyStart, valueEnd)).join(',')}}`
}

/** An object of these members, each with the text of its value. */
export function objectText(members: readonly (readonly [name: string, valueText: string])[]): string {
  return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
}

/** The texts of the items of an array. */
export function arrayItems(text: string): string[] {
  const items: string[] = []
  let depth = 0
  let start = -1
  let end = 0
  for (const token of rawTokens(text)) {
    const { text: piece } = token
    if (depth === 0) {
      if (piece !== '[') return []
      depth = 1
      continue
    }
    if (depth === 1 && (piece === ',' || piece === ']')) {
      if (start >= 0) items.push(text.slice(start, end))
      start = -1
      continue
    }
    if (start < 0) start = token.start
    if (piece === '{' || piece === '[') depth++
    if (piece === '}' || piece === ']') depth--
    end = token.start + piece.length
  }
  return items
}

/** Text or nothing of a value that should be a string. */
export function stringOf(valueText: string | undefined): string | undefined {
  return valueText?.startsWith('"') ? JSON.parse(valueText) : undefined
}
