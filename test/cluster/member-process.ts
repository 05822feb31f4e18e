/** A secondary in a process of its own, to be killed. It takes the first notice over and keeps everybody waiting after that. */
import { Membership } from '../../src/cluster/membership.ts'

const [, , path = ''] = process.argv
let notices = 0
new Membership({
  path,
  welcome: async () => {
    process.send?.('welcomed')
  },
  signal: () => {},
  call: () => (++notices === 1 ? Promise.resolve(process.pid) : new Promise(() => {})),
  lost: () => {},
})
