/** The work that a secondary leaves to the primary: user functions and updates of indexes. */
import type { Functions } from '../functions/functions.ts'
import type { IndexPlace, IndexRunner } from '../views/updating/index-runner.ts'
import type { SecondaryNode } from './secondary-node.ts'

/**
 * Queries of views combine reductions, and the primary runs the reduce functions. Requests that call any other function are
 * forwarded to the primary.
 */
export function remoteFunctions(node: SecondaryNode): Functions {
  return {
    reduce: (program, groups, { owner, signal }) => node.reduce(program, groups, owner, signal),
    rereduce: (program, groups, { owner, signal }) => node.rereduce(program, groups, owner, signal),
    map: notHere,
    filter: notHere,
    filterByView: notHere,
    validate: notHere,
    show: notHere,
    update: notHere,
    list: notHere,
    prepare: () => {},
    close: async () => {},
  }
}

async function notHere(): Promise<never> {
  throw new Error('Functions run in the primary node.')
}

/** Asks the primary to update indexes in its index processes. This node then reads their files. */
export class RemoteRunner implements IndexRunner {
  readonly isElsewhere = true
  readonly #node: SecondaryNode

  constructor(node: SecondaryNode) {
    this.#node = node
  }

  async update({ database, design }: IndexPlace, signal: AbortSignal): Promise<void> {
    await this.#node.bringIndex({ database: database.name, uuid: database.uuid, design, isUpdated: true }, signal)
  }

  async compact(): Promise<void> {
    throw new Error('Indexes are compacted by the primary node.')
  }

  prepare(): void {}

  settingsChanged(): void {}

  async close(): Promise<void> {}
}
