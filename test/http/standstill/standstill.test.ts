/** Nothing that one client sends keeps all others waiting: the small form. */
import { holdsStandstill } from './standstill.ts'

holdsStandstill({ bytes: 3_000_000, items: 10_000 }, { longestMs: 50, rssMb: 1000 })
