/**
 * Selectors evaluated the plain way, over parsed documents: what the server's own matching is held against. It follows the
 * rules of the interface one by one and shares no code with the server.
 */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

const collator = new Intl.Collator('en', { sensitivity: 'variant' })
const RANKS = ['null', 'false', 'true', 'number', 'string', 'array', 'object']

function kindOf(value: Json): string {
  if (value === null) return 'null'
  if (typeof value === 'boolean') return String(value)
  if (Array.isArray(value)) return 'array'
  return typeof value
}

/** The order of views. */
export function compareJson(a: Json, b: Json): number {
  const ranks = RANKS.indexOf(kindOf(a)) - RANKS.indexOf(kindOf(b))
  if (ranks !== 0) return ranks
  if (typeof a === 'number' && typeof b === 'number') return a - b
  if (typeof a === 'string' && typeof b === 'string') return collator.compare(a, b)
  if (Array.isArray(a) && Array.isArray(b)) return compareLists(a, b)
  if (isObject(a) && isObject(b)) return compareLists(Object.entries(a).flat(), Object.entries(b).flat())
  return 0
}

function compareLists(a: readonly Json[], b: readonly Json[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const order = compareJson(a[i]!, b[i]!)
    if (order !== 0) return order
  }
  return a.length - b.length
}

function isObject(value: unknown): value is Record<string, Json> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

type Found = { readonly state: 'found'; readonly value: Json } | { readonly state: 'missing' | 'bad path' }

export function fieldOf(document: Json, name: string): Found {
  let value = document
  for (const part of name.split('.')) {
    if (Array.isArray(value)) {
      if (!/^\d+$/.test(part) || Number(part) >= value.length) return { state: 'bad path' }
      value = value[Number(part)]
    } else if (isObject(value)) {
      if (!Object.hasOwn(value, part)) return { state: 'missing' }
      value = value[part]!
    } else return { state: 'bad path' }
  }
  return { state: 'found', value }
}

export function naiveMatch(selector: Json, document: Json): boolean {
  return matchAt(selector, document, '', false)
}

/** `name` is the field that the conditions are about; empty for the value itself. `isNot` is whether a negation is above. */
function matchAt(condition: Json, document: Json, name: string, isNot: boolean): boolean {
  if (!isObject(condition) || (Object.keys(condition).length === 0 && name !== '')) {
    return test('$eq', condition, document, name, isNot)
  }
  const each = Object.entries(condition).map(([key, argument]) => () => {
    if (!key.startsWith('$')) return matchAt(argument, document, name === '' ? key : `${name}.${key}`, isNot)
    const list = (): readonly Json[] => argument as readonly Json[]
    if (key === '$and') return joined(list(), 'every', isNot)
    if (key === '$or') return joined(list(), 'some', isNot)
    if (key === '$nor') return joined(list(), isNot ? 'some' : 'every', false, !isNot)
    if (key === '$not') return matchAt(argument, document, name, !isNot)
    return test(key, argument, document, name, isNot)
  })
  return isNot && each.length > 1 ? each.some((run) => run()) : each.every((run) => run())

  /** Of no parts both are true, whatever stands above. */
  function joined(parts: readonly Json[], how: 'every' | 'some', flips: boolean, inner = isNot): boolean {
    if (parts.length === 0) return true
    const isEvery = (how === 'every') !== flips
    return isEvery
      ? parts.every((part) => matchAt(part, document, name, inner))
      : parts.some((part) => matchAt(part, document, name, inner))
  }
}

function test(operator: string, argument: Json, document: Json, name: string, isNot: boolean): boolean {
  const found: Found = name === '' ? { state: 'found', value: document } : fieldOf(document, name)
  if (operator === '$exists') {
    const wanted = (argument as boolean) !== isNot
    return wanted ? found.state === 'found' : found.state === 'missing'
  }
  if (found.state !== 'found') return false
  return passes(operator, argument, found.value, name === '_id') !== isNot
}

function compareIds(a: Json, b: Json): number {
  return typeof b === 'string' ? Buffer.compare(Buffer.from(a as string), Buffer.from(b)) : 1
}

function passes(operator: string, argument: Json, value: Json, isId: boolean): boolean {
  const compare = isId ? compareIds : compareJson
  const list = argument as readonly Json[]
  switch (operator) {
    case '$lt':
      return compare(value, argument) < 0
    case '$lte':
      return compare(value, argument) <= 0
    case '$eq':
      return compare(value, argument) === 0
    case '$ne':
      return compare(value, argument) !== 0
    case '$gte':
      return compare(value, argument) >= 0
    case '$gt':
      return compare(value, argument) > 0
    case '$in':
    case '$nin': {
      const values = Array.isArray(value) ? value : [value]
      return values.some((one: Json) => list.some((each) => compare(one, each) === 0)) === (operator === '$in')
    }
    case '$type':
      return (kindOf(value) === 'true' || kindOf(value) === 'false' ? 'boolean' : kindOf(value)) === argument
    case '$size':
      return Array.isArray(value) && value.length === argument
    case '$mod':
      return Number.isSafeInteger(value) && (value as number) % Number(list[0]) === Number(list[1])
    case '$regex':
      return typeof value === 'string' && new RegExp(argument as string, 'u').test(value)
    case '$beginsWith':
      return typeof value === 'string' && value.startsWith(argument as string)
    case '$all': {
      if (!Array.isArray(value) || list.length === 0) return false
      const held = new Set(value.map((each: Json) => JSON.stringify(each)))
      const isWhole = list.length === 1 && Array.isArray(list[0]) && JSON.stringify(list[0]) === JSON.stringify(value)
      return isWhole || list.every((each) => held.has(JSON.stringify(each)))
    }
    case '$elemMatch':
      return Array.isArray(value) && value.some((each: Json) => naiveMatch(argument, each))
    case '$allMatch':
      return Array.isArray(value) && value.length > 0 && value.every((each: Json) => naiveMatch(argument, each))
    case '$keyMapMatch':
      return isObject(value) && Object.keys(value).some((each) => naiveMatch(argument, each))
    default:
      throw new Error(`The naive evaluation does not know ${operator}.`)
  }
}
