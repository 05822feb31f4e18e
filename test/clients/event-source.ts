/** A client of its own process, since Node has `EventSource` only where it is asked for: tells what it hears. */
const [, , url = ''] = process.argv
const source = new EventSource(url)
source.onopen = () => process.send?.({ kind: 'open' })
source.onmessage = ({ data, lastEventId }) => process.send?.({ kind: 'message', data, lastEventId })
process.on('disconnect', () => process.exit())
