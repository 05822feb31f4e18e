/** Many connections that cost work at the same time: the small form. */
import { holdsCrowds } from './standstill-connections.ts'

holdsCrowds({ connections: 8, chunks: 100_000 }, { longestMs: 50, rssMb: 1000 })
