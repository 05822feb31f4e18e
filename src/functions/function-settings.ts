/** The settings of user functions. They are read at each call, so a change applies at once. */

export interface FunctionSettings {
  /** What a function may take for one document, or one call. */
  readonly timeoutMs: number
  /** Whether the results of reduce functions must shrink. */
  readonly reduceLimit: boolean
  /** Processes of one language. */
  readonly processLimit: number
  /** What the heap of one design document may take. */
  readonly isolateMemoryMb: number
  /** What a process may take altogether. */
  readonly processMemoryMb: number
}

/** Where settings are read: as much of the configuration as is needed. */
export interface SettingSource {
  get(section: string, key: string): string | undefined
  integer(section: string, key: string): number
}

/** The engine takes no less. */
const LEAST_ISOLATE_MB = 8

export function functionSettings(source: SettingSource): FunctionSettings {
  return {
    timeoutMs: source.integer('service', 'os_process_timeout'),
    // Any other text enforces it.
    reduceLimit: source.get('query_server_config', 'reduce_limit') !== 'false',
    processLimit: source.integer('query_server_config', 'os_process_limit'),
    isolateMemoryMb: Math.max(LEAST_ISOLATE_MB, source.integer('query_server_config', 'isolate_memory_limit')),
    processMemoryMb: source.integer('query_server_config', 'process_memory_limit'),
  }
}
