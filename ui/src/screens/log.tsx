/** The tail of the log as it grows, filtered by level and words. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { requestText } from '../api/client.ts'
import { every } from '../api/polling.ts'
import { Button } from '../parts/button.tsx'
import { Check, SearchField, Segments } from '../parts/field.tsx'
import { plural } from '../parts/figures.tsx'
import { useRemembered } from '../parts/remembered.ts'
import { EmptyState, Loaded } from '../parts/states.tsx'
import { Place } from '../shell/place.tsx'
import { useQueryValue } from '../shell/route.ts'

const TAIL_BYTES = 200_000
const EVERY_MS = 2_000
const MOST_LINES = 1_000

type Level = 'all' | 'info' | 'warn' | 'error'

interface LogLine {
  readonly time: string
  readonly level: string
  readonly text: string
}

const LEVELS: readonly string[] = ['debug', 'info', 'warn', 'error']

export function LogScreen() {
  const [levelText, setLevel] = useQueryValue('level', 'all')
  const level: Level = levelText === 'info' || levelText === 'warn' || levelText === 'error' ? levelText : 'all'
  const [search, setSearch] = useQueryValue('search')
  const [isPaused, setPaused] = useState(false)
  const [hidesOwn, setHidesOwn] = useRemembered('log.hides-own', true)
  const query = useQuery({
    queryKey: ['log'],
    queryFn: () => requestText('_log', { query: { bytes: TAIL_BYTES }, headers: { Accept: 'text/plain' } }),
    refetchInterval: isPaused ? false : every(EVERY_MS),
    placeholderData: keepPreviousData,
  })
  return (
    <>
      <Place title="Log" />
      <div className="tools">
        <SearchField
          label="Lines that contain"
          placeholder="Lines that contain…"
          value={search}
          onChange={({ target }) => setSearch(target.value)}
        />
        <Segments
          label="Level"
          value={level}
          options={[
            ['all', 'All'],
            ['info', 'Info'],
            ['warn', 'Warnings'],
            ['error', 'Errors'],
          ]}
          onChange={setLevel}
        />
        <Check
          label="Hide requests of this interface"
          checked={hidesOwn}
          onChange={({ target }) => setHidesOwn(target.checked)}
        />
        <span className="tools-space" />
        <Button icon={isPaused ? 'play' : 'pause'} onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'Resume' : 'Pause'}
        </Button>
      </div>
      <Loaded query={query}>{(text) => <Lines lines={filtered(linesOf(text), { level, search, hidesOwn })} />}</Loaded>
    </>
  )
}

function Lines({ lines }: { lines: readonly LogLine[] }) {
  const frame = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  const last = lines.at(-1)
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines are what it follows.
  useEffect(() => {
    const element = frame.current
    if (element && isAtEnd.current) element.scrollTop = element.scrollHeight
  }, [last?.text, lines.length])
  if (lines.length === 0) return <EmptyState title="No lines">No recent line matches.</EmptyState>
  return (
    <>
      <div
        className="log-lines"
        ref={frame}
        role="log"
        aria-label="Log"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: who scrolls by keyboard must be able to get here.
        tabIndex={0}
        onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
          isAtEnd.current = scrollHeight - scrollTop - clientHeight < 40
        }}
      >
        {lines.map(({ time, level, text }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines may be the same.
          <div className="log-line" key={index} data-level={level}>
            <span>{time}</span>
            <span>{level}</span>
            <span>{text}</span>
          </div>
        ))}
      </div>
      <div className="foot">{plural(lines.length, 'line')} of the last 200 KB</div>
    </>
  )
}

function linesOf(text: string): LogLine[] {
  const lines = text.split('\n').filter((line) => line !== '')
  return lines.flatMap((line, index) => {
    const [, date, level, rest] = /^\[([^\]]*)\] \[(\w+)\] \[[^\]]*\] (.*)$/.exec(line) ?? []
    // The first one may be cut.
    if (date === undefined || level === undefined || rest === undefined) {
      return index === 0 ? [] : [{ time: '', level: '', text: line }]
    }
    return [{ time: /\d\d:\d\d:\d\d/.exec(date)?.[0] ?? date, level, text: rest }]
  })
}

/** Requests of the interface's own polling. */
const OWN = / (GET|POST) \/(_log|_stats|_active_tasks|_session|_dbs_info|_scheduler|_utils)\b\S* (20\d|304)$/

interface LogFilter {
  readonly level: Level
  readonly search: string
  readonly hidesOwn: boolean
}

function filtered(lines: readonly LogLine[], { level: least, search, hidesOwn }: LogFilter): LogLine[] {
  const from = least === 'all' ? 0 : LEVELS.indexOf(least)
  const words = search.toLowerCase()
  return lines
    .filter(({ text }) => !hidesOwn || !OWN.test(text))
    .filter(({ level }) => from === 0 || LEVELS.indexOf(level) >= from)
    .filter(({ text }) => text.toLowerCase().includes(words))
    .slice(-MOST_LINES)
}
