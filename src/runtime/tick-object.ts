/**
 * Keeps `process.nextTick` fast. The engine learns the shape of the objects that Node queues there, and unlearns it for
 * good when a garbage collection finds none of them alive: each tick then takes seven times as long, and a request has a
 * dozen. One that is kept alive from the start prevents that.
 */
import { executionAsyncResource } from 'node:async_hooks'

const kept: object[] = []

/** To be called before the first full garbage collection, so as early as can be. */
export function keepTickObject(): void {
  process.nextTick(() => {
    kept.push(executionAsyncResource())
  })
}
