/** A program for tests: starts processes that never end, says which, and waits to be killed. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { endGroupWithUs, endWithUs, startReaperAhead } from '../../../src/runtime/processes/reaper.ts'

if (process.argv.includes('--ahead')) startReaperAhead()
const endless = spawn('sh', ['-c', 'while :; do :; done'], { stdio: 'ignore' })
endWithUs(endless)
const leader = spawn('sh', ['-c', 'sleep 1000 & echo $!; wait'], {
  detached: true,
  stdio: ['ignore', 'pipe', 'ignore'],
})
endGroupWithUs(leader)
const [member] = await once(leader.stdout, 'data')
const short = spawn('true', { stdio: 'ignore' })
endWithUs(short)
await once(short, 'exit')
// A stopped process handles nothing by itself.
leader.kill('SIGSTOP')
setInterval(() => {}, 1000)
process.send?.({ endless: endless.pid, leader: leader.pid, member: Number(member) })
