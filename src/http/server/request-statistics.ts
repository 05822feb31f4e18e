/** What is counted of every request. The counters are found once: looking them up by name would cost each request. */
import type { Counter, Statistics } from '../../runtime/statistics/statistics.ts'
import type { Counted } from './route.ts'

export class RequestStatistics {
  readonly #requests: Counter
  readonly #time: Counter
  readonly #methods: CounterMap<string>
  readonly #statuses: CounterMap<number>
  readonly #counted: CounterMap<Counted>

  constructor(statistics: Statistics) {
    this.#requests = statistics.counter('httpd', 'requests')
    this.#time = statistics.counter('service', 'request_time')
    this.#methods = new CounterMap((method) => statistics.counter('httpd_request_methods', method))
    this.#statuses = new CounterMap((status) => statistics.counter('httpd_status_codes', String(status)))
    this.#counted = new CounterMap((name) =>
      statistics.counter(name.startsWith('database_') ? 'service' : 'httpd', name),
    )
  }

  begin(method: string): void {
    this.#methods.get(method).add(1)
  }

  count(names: readonly Counted[]): void {
    for (const name of names) this.#counted.get(name).add(1)
  }

  reply(status: number): void {
    this.#statuses.get(status).add(1)
  }

  end(tookMs: number): void {
    this.#requests.add(1)
    this.#time.observe(tookMs)
  }
}

/** Methods and statuses are few: those that the parser knows, and three digits. */
class CounterMap<Name> {
  readonly #find: (name: Name) => Counter
  readonly #known = new Map<Name, Counter>()

  constructor(find: (name: Name) => Counter) {
    this.#find = find
  }

  get(name: Name): Counter {
    let counter = this.#known.get(name)
    if (!counter) {
      counter = this.#find(name)
      this.#known.set(name, counter)
    }
    return counter
  }
}
