/** What replications need of the server. */
import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log/log.ts'
import type { Metrics } from '../runtime/metrics.ts'
import type { TaskRegistry } from '../runtime/tasks.ts'
import type { LeasesOf } from '../storage/leases/work-leases.ts'
import type { HttpAgents } from './client/http-agents.ts'
import type { LocalServices } from './peers/local-peer.ts'

export interface ReplicationServices extends LocalServices {
  /** Connections to other servers. */
  readonly agents: HttpAgents
  readonly tasks: TaskRegistry
  readonly metrics?: Metrics
  readonly clock: Clock
  readonly log: Log
  /** Where other servers have the same databases: one of all runs the replications of documents. */
  readonly leases?: LeasesOf | undefined
  /** What all servers that share databases have in common; else this one's own uuid names its replications. */
  readonly engineUuid?: string | undefined
}
