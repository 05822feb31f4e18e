/** How the administration interface is built: static files with hashed names that work below any path. */
import { fileURLToPath } from 'node:url'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

export default defineConfig(({ command }) => ({
  root: here('.'),
  // While developing, everything that is not of the interface goes to a server at its usual address.
  base: command === 'serve' ? '/_utils/' : './',
  plugins: [react(), sessionPage()],
  resolve: {
    // The original puts <style> elements into the page, which the content policy forbids.
    alias: { 'react-style-singleton': here('./src/parts/adopted-style.ts') },
  },
  build: {
    outDir: here('../dist/ui'),
    emptyOutDir: true,
    target: 'es2023',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 900,
  },
  server: { proxy: { '^/(?!_utils/)': 'http://127.0.0.1:5984' } },
}))

/** `session.html`, to which a 401 redirects browsers, is the same page under another name. */
function sessionPage(): Plugin {
  return {
    name: 'session-page',
    apply: 'build',
    enforce: 'post',
    generateBundle(_, bundle) {
      const page = bundle['index.html']
      if (page?.type !== 'asset') throw new Error('The build has no index.html.')
      this.emitFile({ type: 'asset', fileName: 'session.html', source: page.source })
    },
  }
}
