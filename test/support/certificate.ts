import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A key and a certificate that signs itself. */
export async function certificate(folder: string): Promise<{ cert_file: string; key_file: string }> {
  const cert_file = join(folder, 'cert.pem')
  const key_file = join(folder, 'key.pem')
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2']
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  await run('openssl', ['req', '-x509', ...curve, '-keyout', key_file, '-out', cert_file, ...subject])
  return { cert_file, key_file }
}
