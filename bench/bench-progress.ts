/** Where a run of the benchmark is, on stderr: a line for each workload, with how long it has taken and may still take. */

export class BenchProgress {
  readonly #total: number
  readonly #begunMs = performance.now()
  #done = 0

  constructor(total: number) {
    this.#total = total
  }

  begin(title: string): void {
    const elapsedMs = performance.now() - this.#begunMs
    const left = this.#done > 0 ? `, about ${minutes((elapsedMs / this.#done) * (this.#total - this.#done))} left` : ''
    const place = `${String(this.#done + 1).padStart(String(this.#total).length)} of ${this.#total}`
    process.stderr.write(`[${place}, ${minutes(elapsedMs)}${left}] ${title}\n`)
    this.#done++
  }
}

function minutes(ms: number): string {
  const seconds = Math.round(ms / 1000)
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}
