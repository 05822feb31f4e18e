/** The server at a glance: what it is, how busy it is, and what it is doing. */
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { requestJson } from '../api/client.ts'
import { listDatabases } from '../api/databases.ts'
import { every } from '../api/polling.ts'
import { useSession } from '../api/session.ts'
import {
  type ActiveTask,
  currentOf,
  type Latencies,
  readLatencies,
  readStatistics,
  readSystem,
  readTasks,
  type Statistics,
} from '../api/statistics.ts'
import { bytesText, count, Progress, plural, RelativeTime, Sparkline } from '../parts/figures.tsx'
import { Loaded } from '../parts/states.tsx'
import { Place } from '../shell/place.tsx'
import { link } from '../shell/route.ts'

const EVERY_MS = 2_000
const SYSTEM_EVERY_MS = 10_000
/** Two minutes of them. */
const MOST_SAMPLES = 60

interface Sample {
  readonly requests: number
  readonly latencyMs: number
  readonly reads: number
  readonly writes: number
}

export function OverviewScreen() {
  const { isAdmin } = useSession()
  const statistics = useQuery({ queryKey: ['statistics'], queryFn: readStatistics, refetchInterval: every(EVERY_MS) })
  const samples = useSamples(statistics.data, statistics.dataUpdatedAt)
  return (
    <>
      <Place title="Overview" />
      <div className="content">
        <div className="page">
          <ServerFacts />
          <section className="section">
            <h2>Now</h2>
            <div className="charts">
              <Chart label="Requests a second" values={samples.map(({ requests }) => requests)} format={rate} />
              <Chart label="Request time" values={samples.map(({ latencyMs }) => latencyMs)} format={milliseconds} />
              <Chart label="Documents read a second" values={samples.map(({ reads }) => reads)} format={rate} />
              <Chart label="Writes a second" values={samples.map(({ writes }) => writes)} format={rate} />
            </div>
            <p className="muted">Each point is the mean of {EVERY_MS / 1000} seconds; this page itself asks too.</p>
          </section>
          {isAdmin && <RequestTimes />}
          {isAdmin && <Tasks />}
          <Loaded query={statistics}>{(data) => <StatisticsTable statistics={data} />}</Loaded>
        </div>
      </div>
    </>
  )
}

/** Differences of counters between two readings. */
function useSamples(statistics: Statistics | undefined, timeMs: number): readonly Sample[] {
  const [state, setState] = useState<{ before?: { counts: Counts; timeMs: number }; samples: readonly Sample[] }>({
    samples: [],
  })
  useEffect(() => {
    if (!statistics) return
    const counts = countsOf(statistics)
    setState(({ before, samples }) => {
      if (!before || timeMs <= before.timeMs) return { before: { counts, timeMs }, samples }
      const seconds = (timeMs - before.timeMs) / 1000
      const since = (name: keyof Counts) => Math.max(0, counts[name] - before.counts[name])
      const sample = {
        requests: since('requests') / seconds,
        latencyMs: since('requests') === 0 ? 0 : since('timeMs') / since('requests'),
        reads: since('reads') / seconds,
        writes: since('writes') / seconds,
      }
      return { before: { counts, timeMs }, samples: [...samples, sample].slice(-MOST_SAMPLES) }
    })
  }, [statistics, timeMs])
  return state.samples
}

interface Counts {
  readonly requests: number
  readonly timeMs: number
  readonly reads: number
  readonly writes: number
}

function countsOf(statistics: Statistics): Counts {
  // Older names of the family have another first section.
  const own = statistics.service === undefined ? 'couchdb' : 'service'
  return {
    requests: currentOf(statistics, 'httpd', 'requests'),
    timeMs: currentOf(statistics, own, 'request_time'),
    reads: currentOf(statistics, own, 'database_reads'),
    writes: currentOf(statistics, own, 'database_writes'),
  }
}

const rate = (value: number) => (value < 10 ? value.toFixed(1) : count(Math.round(value)))
const milliseconds = (value: number) => `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`

interface ChartProperties {
  readonly label: string
  readonly values: readonly number[]
  format(value: number): string
}

function Chart({ label, values, format }: ChartProperties) {
  const now = values.at(-1)
  const most = values.length === 0 ? 0 : Math.max(...values)
  const words = now === undefined ? '—' : format(now)
  return (
    <figure className="chart">
      <figcaption className="chart-head">
        {label}
        <strong>{words}</strong>
      </figcaption>
      <Sparkline values={values} label={`${label}: now ${words}, at most ${format(most)}`} />
    </figure>
  )
}

interface Welcome {
  readonly version: string
  readonly uuid?: string
  readonly vendor?: { readonly name?: string; readonly version?: string }
}

function ServerFacts() {
  const { isAdmin, name } = useSession()
  const welcome = useQuery({ queryKey: ['welcome'], queryFn: () => requestJson<Welcome>('') })
  const databases = useQuery({ queryKey: ['databases', '', isAdmin, name], queryFn: () => listDatabases('', isAdmin) })
  const list = databases.data?.databases ?? []
  const total = (pick: (one: (typeof list)[number]) => number) => list.reduce((sum, one) => sum + pick(one), 0)
  const mark = databases.data?.isCut ? '+' : ''
  return (
    <dl className="facts">
      <Fact label={welcome.data?.vendor?.name ?? 'Server'} value={welcome.data?.vendor?.version ?? '—'} />
      <Fact
        label="Databases"
        value={databases.data ? `${count(list.length)}${mark}` : '—'}
        href={link(['databases'])}
      />
      <Fact
        label="Documents"
        value={databases.data ? `${count(total(({ information }) => information?.doc_count ?? 0))}${mark}` : '—'}
      />
      <Fact
        label="On disk"
        value={databases.data ? `${bytesText(total(({ information }) => information?.disk_size ?? 0))}${mark}` : '—'}
      />
      {isAdmin && <FreeDisk />}
    </dl>
  )
}

/** The share of the disk that is free, in words of warning where it is small. */
const LITTLE_SPACE = 0.1

function FreeDisk() {
  const system = useQuery({ queryKey: ['system'], queryFn: readSystem, refetchInterval: every(SYSTEM_EVERY_MS) })
  if (system.data && !system.data.disk) return <Fact label="Storage" value="memory" />
  const disk = system.data?.disk
  const isLittle = disk !== undefined && disk.free < disk.total * LITTLE_SPACE
  return (
    <Fact
      label={isLittle ? 'Free disk: little is left' : 'Free disk'}
      value={disk ? `${bytesText(disk.free)} of ${bytesText(disk.total)}` : '—'}
    />
  )
}

/** Response times, as clients see them. */
function RequestTimes() {
  const latencies = useQuery({ queryKey: ['latencies'], queryFn: readLatencies, refetchInterval: every(EVERY_MS) })
  const value = (pick: (one: Latencies) => number) => (latencies.data ? milliseconds(pick(latencies.data)) : '—')
  return (
    <section className="section">
      <h2>Request time</h2>
      <dl className="facts">
        <Fact label="50 % within" value={value(({ halfMs }) => halfMs)} />
        <Fact label="95 % within" value={value(({ mostMs }) => mostMs)} />
        <Fact label="99 % within" value={value(({ nearlyAllMs }) => nearlyAllMs)} />
      </dl>
      <p className="muted">
        Of {latencies.data ? plural(latencies.data.requests, 'request') : 'all requests'} since the start, inside the
        server.
      </p>
    </section>
  )
}

function Fact({ label, value, href }: { label: string; value: string; href?: string }) {
  return (
    <div className="fact">
      <dt>{label}</dt>
      <dd>{href === undefined ? value : <a href={href}>{value}</a>}</dd>
    </div>
  )
}

function Tasks() {
  const query = useQuery({ queryKey: ['tasks'], queryFn: readTasks, refetchInterval: every(EVERY_MS) })
  return (
    <section className="section">
      <h2>Tasks</h2>
      <Loaded query={query}>
        {(tasks) =>
          tasks.length === 0 ? (
            <p className="muted">Nothing is being compacted, indexed or replicated.</p>
          ) : (
            <div className="card">
              {tasks.map((task) => (
                <Task key={`${task.pid} ${task.type}`} task={task} />
              ))}
            </div>
          )
        }
      </Loaded>
    </section>
  )
}

const TASKS: Readonly<Record<string, string>> = {
  indexer: 'Indexing',
  database_compaction: 'Compacting',
  view_compaction: 'Compacting the index of',
  replication: 'Replicating',
}

function Task({ task }: { task: ActiveTask }) {
  const { type, database, design_document, source, target, progress, started_on } = task
  const what = source === undefined ? [database, design_document].filter(Boolean).join('/') : `${source} → ${target}`
  const words = `${TASKS[type] ?? type} ${what}`
  return (
    <div className="attachment">
      <div className="attachment-line">
        <span className="cut" style={{ flex: 1 }}>
          {words}
        </span>
        {started_on !== undefined && (
          <span className="muted nowrap hide-on-phone">
            since <RelativeTime timeMs={started_on * 1000} />
          </span>
        )}
        {typeof progress === 'number' && <span className="number">{progress} %</span>}
      </div>
      {typeof progress === 'number' && <Progress value={progress / 100} label={words} />}
    </div>
  )
}

function StatisticsTable({ statistics }: { statistics: Statistics }) {
  const rows = Object.entries(statistics).flatMap(([section, names]) =>
    Object.entries(names).map(([name, statistic]) => ({ section, name, statistic })),
  )
  return (
    <section className="section">
      <h2>Totals since the start</h2>
      <div className="card" style={{ overflowX: 'auto' }}>
        <table className="table">
          <thead>
            <tr>
              <th scope="col">What</th>
              <th scope="col" className="number">
                Value
              </th>
            </tr>
          </thead>
          <tbody>
            {rows
              // Times are shown above; their sum has no meaning.
              .filter(({ name, statistic }) => name !== 'request_time' && (statistic.current ?? 0) !== 0)
              .map(({ section, name, statistic }) => (
                <tr key={`${section} ${name}`}>
                  <td title={`${section}/${name}`}>{statistic.description}</td>
                  <td className="number">{count(Math.round(statistic.current ?? 0))}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
