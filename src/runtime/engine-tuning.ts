/** Settings of V8 for a server: two make requests faster that come one at a time, one bounds its memory. */
import { executionAsyncResource } from 'node:async_hooks'
import { setFlagsFromString } from 'node:v8'

/** After 300 calls V8 has seen too little: the code that it made then was slower under full load. */
const CALLS = 1000

/** V8 complains about a flag that it does not know, and flags come and go: this is for the release that was measured. */
const MEASURED_RELEASE = 'v24.'

/**
 * Has V8 use its best compiler sooner: by default after 3,000 calls of a function. A request runs some hundred functions once
 * each, so a server that gets one request at a time would stay slow for its first ten thousand requests. To be called before
 * the work begins.
 */
export function optimizeEarly(): void {
  if (process.version.startsWith(MEASURED_RELEASE)) setFlagsFromString(`--invocation-count-for-turbofan=${CALLS}`)
}

/** In percent of what is alive after a collection. */
const HEAP_GROWTH = 100

/**
 * Bounds the garbage of the old generation by what is alive: by default a heap of 25 MB grows to 100 MB before it is collected,
 * and V8 keeps the pages that it had then. To be called before the work begins.
 */
export function boundHeapGrowth(): void {
  if (process.version.startsWith(MEASURED_RELEASE)) setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH}`)
}

const kept: object[] = []

/**
 * Keeps `process.nextTick` fast. V8 learns the shape of the objects that Node queues there, and discards it for good when a
 * garbage collection finds none of them alive: each tick then takes seven times as long, and a request has a dozen. One
 * object that is kept alive prevents that. To be called before the first full garbage collection, so as early as possible.
 */
export function keepTickObject(): void {
  process.nextTick(() => {
    kept.push(executionAsyncResource())
  })
}
