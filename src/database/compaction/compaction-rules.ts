/**
 * The rules of the section `compactions`: when a database and its indexes are compacted automatically. Each is a list of
 * pairs such as `[{db_fragmentation, "70%"}, {from, "23:00"}, {to, "04:00"}]`. What a rule does not name is not a condition.
 */
import { parseTerm, type Term } from '../../config/term-text.ts'

export interface CompactionRule {
  /** How much of the file of the database must be garbage at least. */
  readonly fragmentationPercent: number
  /** The same for the file of an index. */
  readonly indexFragmentationPercent: number
  /** How much of a file must be garbage by the measure of its last compaction, where there was one. */
  readonly garbagePercent: number
  /** Whether indexes need not wait until their database is compacted. */
  readonly areIndexesParallel: boolean
  /** At any time when undefined. */
  readonly window: TimeWindow | undefined
  /** Whether a compaction that is not done when the window ends is given up. */
  readonly isWindowStrict: boolean
}

/** The rule of databases that have none of their own. */
export const DEFAULT_RULE = '_default'

/** Smaller files are not worth compacting. */
const DEFAULT_GARBAGE_PERCENT = 9

/** Undefined if the text is not a valid rule. */
export function parseCompactionRule(text: string): CompactionRule | undefined {
  const list = parseTerm(text)
  if (list?.kind !== 'list') return undefined
  const given = new Map<string, string>()
  for (const pair of list.items) {
    const [name, value] = pair.items
    if (pair.kind !== 'tuple' || pair.items.length !== 2 || !name || !value) return undefined
    if (!PARAMETERS.get(name.text)?.(value)) return undefined
    given.set(name.text, value.text)
  }
  if (given.has('from') !== given.has('to')) return undefined
  return {
    fragmentationPercent: parsePercent(given.get('db_fragmentation') ?? '0') ?? 0,
    indexFragmentationPercent: parsePercent(given.get('view_fragmentation') ?? '0') ?? 0,
    garbagePercent: parsePercent(given.get('min_garbage') ?? '') ?? DEFAULT_GARBAGE_PERCENT,
    areIndexesParallel: given.get('parallel_view_compaction') === 'true',
    window: windowOf(given),
    isWindowStrict: given.get('strict_window') === 'true',
  }
}

function windowOf(given: ReadonlyMap<string, string>): TimeWindow | undefined {
  const fromMinute = parseMinuteOfDay(given.get('from') ?? '')
  const toMinute = parseMinuteOfDay(given.get('to') ?? '')
  return fromMinute === undefined || toMinute === undefined ? undefined : { fromMinute, toMinute }
}

function parsePercent(text: string): number | undefined {
  const [, digits] = /^(\d{1,3})%?$/.exec(text) ?? []
  return digits === undefined || Number(digits) > 100 ? undefined : Number(digits)
}

const isPercent = ({ kind, text }: Term) => kind === 'text' && parsePercent(text) !== undefined
const isTime = ({ kind, text }: Term) => kind === 'text' && parseMinuteOfDay(text) !== undefined
const isTruth = ({ kind, text }: Term) => kind === 'word' && (text === 'true' || text === 'false')

/** What the value of each parameter must be. */
const PARAMETERS: ReadonlyMap<string, (value: Term) => boolean> = new Map([
  ['db_fragmentation', isPercent],
  ['view_fragmentation', isPercent],
  ['min_garbage', isPercent],
  ['from', isTime],
  ['to', isTime],
  ['strict_window', isTruth],
  ['parallel_view_compaction', isTruth],
])

/** A part of every day, in local time. One that begins later than it ends goes over midnight. */
export interface TimeWindow {
  /** Minutes since midnight; this one belongs to the window. */
  readonly fromMinute: number
  /** Minutes since midnight; the first one that does not. The same as the other: the whole day. */
  readonly toMinute: number
}

/** The minute of the day of `HH:MM`, or undefined when the text is no time. */
function parseMinuteOfDay(text: string): number | undefined {
  const [, hours, minutes] = /^(\d{1,2}):(\d{1,2})$/.exec(text) ?? []
  if (hours === undefined || Number(hours) > 23 || Number(minutes) > 59) return undefined
  return Number(hours) * 60 + Number(minutes)
}

export function isInside({ fromMinute, toMinute }: TimeWindow, nowMs: number): boolean {
  const now = new Date(nowMs)
  const minute = now.getHours() * 60 + now.getMinutes()
  if (fromMinute < toMinute) return fromMinute <= minute && minute < toMinute
  return fromMinute <= minute || minute < toMinute
}

/** How long a window still lasts that now is inside of; undefined when it never ends. */
export function timeLeftMs({ fromMinute, toMinute }: TimeWindow, nowMs: number): number | undefined {
  if (fromMinute === toMinute) return undefined
  const end = new Date(nowMs)
  end.setHours(0, toMinute, 0, 0)
  if (end.getTime() <= nowMs) end.setDate(end.getDate() + 1)
  return end.getTime() - nowMs
}
