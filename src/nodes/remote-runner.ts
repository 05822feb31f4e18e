/** Asks the primary to update indexes in its index processes. This node then reads their files. */
import type { IndexPlace, IndexRunner } from '../views/updating/index-runner.ts'
import type { SecondaryNode } from './secondary-node.ts'

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
