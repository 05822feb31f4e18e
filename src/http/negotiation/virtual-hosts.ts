/**
 * Virtual hosts: a host name, and perhaps the beginning of a path, stands for a place on this server. Rules are those of
 * the section `vhosts`, such as `:name.example.com/blog = /blog-:name`.
 */

/** The rewritten target if the host has a rule for it; undefined otherwise. */
export function virtualTarget(
  rules: ReadonlyMap<string, string>,
  globalHandlers: string,
  host: string,
  target: string,
): string | undefined {
  if (rules.size === 0) return undefined
  const [path = '', query] = splitOnce(target.replace(/^https?:\/\/[^/?]*/i, ''), '?')
  const segments = path.split('/').filter((segment) => segment !== '')
  if (segments[0] !== undefined && globalHandlers.split(/[\s,]+/).includes(segments[0])) return undefined
  const [name = '', port] = splitOnce(host, ':')
  const labels = name.toLowerCase().split('.')
  for (const rule of sorted(rules)) {
    const bound = bind(rule, labels, port, segments)
    if (!bound) continue
    const rest = segments.slice(rule.path.length)
    const slash = path.endsWith('/') && rest.length > 0 ? '/' : ''
    const place = [...bound, ...rest].join('/')
    return `/${place}${slash}${query === undefined ? '' : `?${query}`}`
  }
  return undefined
}

interface Rule {
  readonly labels: readonly string[]
  readonly port: string | undefined
  readonly path: readonly string[]
  readonly target: readonly string[]
}

/** Sections are new objects after each change, so parsed rules can be cached by them. */
const SORTED = new WeakMap<ReadonlyMap<string, string>, Rule[]>()

function sorted(rules: ReadonlyMap<string, string>): Rule[] {
  const known = SORTED.get(rules)
  if (known) return known
  const parsed = [...rules].filter(([, target]) => target.trim() !== '').map(([key, target]) => parse(key, target))
  parsed.sort(precedence)
  SORTED.set(rules, parsed)
  return parsed
}

function parse(key: string, target: string): Rule {
  const [address = '', path = ''] = splitOnce(key, '/')
  // A colon begins the port only where digits follow; elsewhere it begins the name of a label.
  const [, host = address, port] = /^(.*?)(?::(\d+|\*))?$/.exec(address) ?? []
  const parts = (text: string) => text.split('/').filter((part) => part !== '')
  return {
    labels: host.toLowerCase().split('.'),
    port: port === '*' ? undefined : port,
    path: parts(path),
    target: parts(target.trim()),
  }
}

function rankOf(label: string | undefined): number {
  if (label === '*') return 2
  return label?.startsWith(':') ? 1 : 0
}

function precedence(a: Rule, b: Rule): number {
  for (let i = 0; i < Math.min(a.labels.length, b.labels.length); i++) {
    const difference = rankOf(a.labels[i]) - rankOf(b.labels[i])
    if (difference !== 0) return difference
  }
  return (
    b.labels.length - a.labels.length ||
    Number(a.port !== undefined) - Number(b.port !== undefined) ||
    b.path.length - a.path.length
  )
}

/** The segments of the target, when the rule is for this request. */
function bind(
  { labels: pattern, port: wantedPort, path, target }: Rule,
  labels: readonly string[],
  port: string | undefined,
  segments: readonly string[],
): string[] | undefined {
  if (wantedPort !== undefined && wantedPort !== (port ?? '80')) return undefined
  if (path.some((segment, i) => segments[i] !== segment)) return undefined
  const isOpen = pattern[0] === '*'
  const fixed = isOpen ? pattern.slice(1) : pattern
  const open = labels.slice(0, labels.length - fixed.length)
  if (labels.length < fixed.length || isOpen !== open.length > 0) return undefined
  const names = new Map<string, string>()
  for (const [i, label] of fixed.entries()) {
    const actual = labels[open.length + i] ?? ''
    if (label.startsWith(':')) names.set(label, actual)
    else if (label !== actual) return undefined
  }
  return target.flatMap((segment) => {
    if (segment === '*') return open.toReversed().map(encodeURIComponent)
    if (!segment.startsWith(':')) return [segment]
    return [encodeURIComponent(names.get(segment.toLowerCase()) ?? 'undefined')]
  })
}

function splitOnce(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator)
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + separator.length)]
}
