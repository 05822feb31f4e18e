/** A client of its own process, since Node has `EventSource` only behind a flag: reports the events that it receives. */
const [, , url = ''] = process.argv
const source = new EventSource(url)
source.onopen = () => process.send?.({ kind: 'open' })
source.onmessage = ({ data, lastEventId }) => process.send?.({ kind: 'message', data, lastEventId })
process.on('disconnect', () => process.exit())
