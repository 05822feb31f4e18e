/** A program for tests: holds the tenancy of a folder until it is killed. */
import { holdTenancy } from '../../../src/storage/leases/tenancy-lock.ts'

holdTenancy(process.argv[2] ?? '')
setInterval(() => {}, 1000)
process.send?.('held')
