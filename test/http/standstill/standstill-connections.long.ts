/** Many connections that cost work at the same time. */
import { holdsCrowds } from './standstill-connections.ts'

holdsCrowds({ connections: 38, chunks: 60_000 }, { longestMs: 50, rssMb: 1000 })
