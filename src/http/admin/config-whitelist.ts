/** Which settings may be changed over HTTP, where the operator says so: `[{httpd, config_whitelist}, {log, "*"}]`. */
import { canonicalSection } from '../../config/setting-map.ts'
import { parseTerm } from '../../config/term-text.ts'

/** A list that cannot be read leaves only itself open, so that it can be put right. */
export function isWhitelisted(whitelist: string | undefined, section: string, key: string): boolean {
  if (whitelist === undefined) return true
  const list = parseTerm(whitelist)
  if (list?.kind !== 'list') return section === 'httpd' && key === 'config_whitelist'
  return list.items.some(({ kind, items: [allowedSection, allowedKey, ...rest] }) => {
    if (kind !== 'tuple' || !allowedSection || !allowedKey || rest.length > 0) return false
    if (canonicalSection(allowedSection.text) !== section) return false
    return allowedKey.text === '*' || allowedKey.text === key
  })
}
