/**
 * What is used of the LMDB library beyond what it promises: calls that are not documented, and the format of its files.
 * Each can be switched off by a setting of the section `lmdb`; what is promised is used instead, which is slower. A
 * process uses one library in one way, so this holds for all files that it opens from then on. Index processes get it
 * in their environment.
 */

export interface LibraryUse {
  /** The native cursor, for short ranges and counts. */
  readonly native_cursors: boolean
  /** Writes as instructions in memory, for the native writing thread. */
  readonly native_writes: boolean
  /** Reads into the library's own buffer, and how it makes that larger. */
  readonly native_reads: boolean
  /** Files that are written page by page, without the library. */
  readonly page_writer: boolean
  /** Pages that are looked at before the library maps them. */
  readonly page_inspection: boolean
}

export type LibraryFeature = keyof LibraryUse

export const FEATURES: readonly LibraryFeature[] = [
  'native_cursors',
  'native_writes',
  'native_reads',
  'page_writer',
  'page_inspection',
]

/** What settings of the section `lmdb` allow. */
export function useBySettings(section: ReadonlyMap<string, string>): LibraryUse {
  return useWithout(FEATURES.filter((feature) => section.get(feature) === 'false'))
}

/** With those switched off that are named. */
export function useWithout(features: Iterable<LibraryFeature>): LibraryUse {
  const off = new Set(features)
  return {
    native_cursors: !off.has('native_cursors'),
    native_writes: !off.has('native_writes'),
    native_reads: !off.has('native_reads'),
    page_writer: !off.has('page_writer'),
    page_inspection: !off.has('page_inspection'),
  }
}

let current = useWithout(FEATURES.filter((feature) => process.env[variableOf(feature)] === 'false'))

export function libraryUse(): LibraryUse {
  return current
}

export function setLibraryUse(use: LibraryUse): void {
  current = use
}

/** The environment that makes another process use the library in the same way. */
export function libraryVariables(): Record<string, string> {
  return Object.fromEntries(
    FEATURES.filter((feature) => !current[feature]).map((feature) => [variableOf(feature), 'false']),
  )
}

/** As settings are named in the environment. */
function variableOf(feature: LibraryFeature): string {
  return `SETTLE_LMDB__${feature.toUpperCase()}`
}
