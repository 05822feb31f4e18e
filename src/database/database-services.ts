/** What databases use of the server, and what they report to it. */
import type { Functions } from '../functions/functions.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log/log.ts'
import type { TaskRegistry } from '../runtime/tasks.ts'
import type { LeasesOf } from '../storage/leases/work-leases.ts'
import type { PublishCommit } from './cache-invalidation.ts'
import type { DesignCache } from './design/design-document.ts'
import type { WriteMetrics } from './writing/write-queue.ts'

export interface DatabaseServices {
  readonly clock: Clock
  readonly log: Log
  readonly tasks: TaskRegistry
  /** Called after updates and compactions. */
  readonly onEvent?: DatabaseEventListener
  /** Runs the validation functions of users' writes. */
  readonly functions?: Functions
  /** Shared by all databases. */
  readonly designs?: DesignCache
  readonly writes?: WriteMetrics
  /** Where other servers use the databases too. */
  readonly leases?: LeasesOf | undefined
  /** When the server opened its databases, the same in all of its nodes; of each database when it is opened unless given. */
  readonly epochUs?: () => number
  /** Whether another node writes the databases: caches of their state are invalidated by its notices, or read again. */
  readonly isFollower?: boolean
  /** Where another node writes: a reader waits for changes of the database, so its commits must be subscribed to. */
  readonly onFollowed?: (database: string) => void
  /** Publishes a commit to other nodes. Its writer is answered when the promise resolves, where there is one. */
  readonly onCommit?: PublishCommit
}

/** What happens to databases as a whole, for those who follow all of them. */
export type DatabaseEvent =
  | { readonly type: 'created' | 'updated' | 'deleted' | 'compacted'; readonly db: string }
  /** Comes after the `updated` of the same commit. */
  | { readonly type: 'ddoc_updated'; readonly db: string; readonly id: string }
  /** Another server wrote design documents, or may have. */
  | { readonly type: 'ddocs_updated_elsewhere'; readonly db: string }

/** Called at once, in the order in which things happen; must not throw. */
export type DatabaseEventListener = (event: DatabaseEvent) => void
