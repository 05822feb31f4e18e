/** The report of an import: what was done and what differs, as text on stdout or as JSON. */

/** The documents of a database, and those that are deleted. */
export interface DocumentCounts {
  readonly documents: number
  readonly deleted: number
}

export interface DatabaseReport {
  readonly name: string
  readonly source: DocumentCounts
  readonly target: DocumentCounts
  /** Revisions written by this run. */
  readonly revisionsWritten: number
  readonly localDocuments: number
  /** Documents that the target refused, each with its reason. */
  readonly refused: readonly RefusedDocument[]
  readonly refusedCount: number
}

export interface RefusedDocument {
  readonly id: string
  readonly revision: string
  readonly reason: string
}

/** Something that was not imported, and why. */
export interface LeftOut {
  readonly what: string
  readonly why: string
}

export interface ImportReport {
  readonly source: string
  readonly target: string
  readonly databases: readonly DatabaseReport[]
  /** Names of settings that were set. */
  readonly settings: readonly string[]
  readonly leftOut: readonly LeftOut[]
  /** Databases and settings that failed; running the same command again continues with them. */
  readonly failed: readonly LeftOut[]
}

/** Whether everything requested was imported. */
export function isWhole({ databases, failed }: ImportReport): boolean {
  return failed.length === 0 && databases.every((database) => database.refusedCount === 0 && !differs(database))
}

export function differs({ source, target }: DatabaseReport): boolean {
  return source.documents !== target.documents || source.deleted !== target.deleted
}

export function reportText(report: ImportReport): string {
  const lines = [`Imported from ${report.source} to ${report.target}`, '', ...table(report.databases)]
  for (const { name, refused, refusedCount } of report.databases) {
    if (refusedCount === 0) continue
    lines.push('', `${name}: ${refusedCount} revisions were refused`)
    for (const { id, revision, reason } of refused) lines.push(`  ${id} ${revision}: ${reason}`)
    if (refusedCount > refused.length) lines.push(`  and ${refusedCount - refused.length} more`)
  }
  lines.push(...list('Settings', report.settings))
  lines.push(...list('Failed: run the same command again', report.failed.map(shown)))
  lines.push(...list('Left out', report.leftOut.map(shown)))
  return `${lines.join('\n')}\n`
}

function table(databases: readonly DatabaseReport[]): string[] {
  if (databases.length === 0) return ['No databases.']
  const rows = databases.map((database) => [
    database.name,
    String(database.source.documents),
    String(database.target.documents),
    String(database.source.deleted),
    String(database.target.deleted),
    String(database.revisionsWritten),
    differs(database) ? 'differs' : 'same',
  ])
  const head = ['database', 'documents there', 'here', 'deleted there', 'here', 'written now', '']
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)))
  return [head, ...rows].map((row) =>
    row
      .map((text, column) => (column === 0 ? text.padEnd(widths[0] ?? 0) : text.padStart(widths[column] ?? 0)))
      .join('  ')
      .trimEnd(),
  )
}

function list(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ['', `${title}:`, ...lines.map((line) => `  ${line}`)]
}

function shown({ what, why }: LeftOut): string {
  return `${what}: ${why}`
}
