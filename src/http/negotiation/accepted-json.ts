/** Whether an `Accept` header names JSON. Read in one pass, since every request has one and anybody may make it long. */

/** `application/json`, with parameters or without, but not one that is weighed with nothing. */
export function namesJson(accept: string): boolean {
  const text = accept.toLowerCase()
  for (let at = text.indexOf(JSON_TYPE); at >= 0; at = text.indexOf(JSON_TYPE, at + JSON_TYPE.length)) {
    const end = at + JSON_TYPE.length
    const isWhole = (at === 0 || isBetween(text[at - 1]!)) && (end === text.length || isAfter(text[end]!))
    if (isWhole && !weighsNothing(text, end)) return true
  }
  return false
}

const JSON_TYPE = 'application/json'

function isBetween(character: string): boolean {
  return character === ',' || isBlank(character)
}

function isAfter(character: string): boolean {
  return character === ';' || isBetween(character)
}

function isBlank(character: string): boolean {
  return character === ' ' || character === '\t'
}

/** Whether the parameter that comes next is a weight of zero. */
function weighsNothing(text: string, start: number): boolean {
  const semicolon = skipBlanks(text, start)
  if (text[semicolon] !== ';') return false
  const weight = skipBlanks(text, semicolon + 1)
  if (!text.startsWith('q=0', weight)) return false
  let end = weight + 3
  if (text[end] === '.') end++
  while (text[end] === '0' && text[weight + 3] === '.') end++
  end = skipBlanks(text, end)
  return end === text.length || text[end] === ',' || text[end] === ';'
}

function skipBlanks(text: string, start: number): number {
  let at = start
  while (at < text.length && isBlank(text[at]!)) at++
  return at
}
