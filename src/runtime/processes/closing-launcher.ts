/**
 * A program of its own: closes what it inherited and becomes the program that its arguments name to the shell. Signals that
 * Node ignores would stay ignored in it; those that it handles do not.
 */
import { closeInheritedDescriptors } from './inherited-descriptors.ts'

closeInheritedDescriptors()
for (const signal of ['SIGPIPE', 'SIGXFSZ']) process.on(signal, () => {})
process.execve?.('/bin/sh', ['sh', ...process.argv.slice(2)], process.env)
