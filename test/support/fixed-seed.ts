/** The everyday run tries the same cases each time, so that it fails for what was changed; the long run tries others. */
import fc from 'fast-check'

if (process.env.SETTLE_LONG !== '1') fc.configureGlobal({ seed: 20_261_115 })
