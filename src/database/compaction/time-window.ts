/** A part of every day, in the local time of this machine. One that begins later than it ends goes over midnight. */

export interface TimeWindow {
  /** Minutes since midnight; this one belongs to the window. */
  readonly fromMinute: number
  /** Minutes since midnight; the first one that does not. The same as the other: the whole day. */
  readonly toMinute: number
}

/** The minute of the day of `HH:MM`, or undefined when the text is no time. */
export function parseMinuteOfDay(text: string): number | undefined {
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
