/**
 * The limit of any reply: a socket that answers each request with a constant of as many bytes as the argument says, and looks
 * at nothing of it but where it ends. For requests without a body.
 */
import { createServer } from 'node:net'

const size = Number(process.argv[2])
const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${size}\r\n\r\n`
const reply = Buffer.concat([Buffer.from(head), Buffer.alloc(size, 'x')])
const END = '\r\n\r\n'

const server = createServer({ noDelay: true }, (socket) => {
  let held = ''
  socket.on('error', () => {})
  socket.on('data', (piece) => {
    held += piece.toString('latin1')
    for (let end = held.indexOf(END); end >= 0; end = held.indexOf(END)) {
      held = held.slice(end + END.length)
      socket.write(reply)
    }
  })
})

server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (typeof address === 'object' && address) process.stdout.write(`http://127.0.0.1:${address.port}/\n`)
})
