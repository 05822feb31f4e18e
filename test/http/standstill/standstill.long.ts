/** Nothing that one client sends keeps all others waiting: bodies and lists as large as they may be. */
import { holdsStandstill } from './standstill.ts'

holdsStandstill({ bytes: 60_000_000, items: 100_000 }, { longestMs: 50, rssMb: 3000 })
