/** The entry point of the interface. */
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { ApiError } from './api/client.ts'
import { App } from './shell/app.tsx'
import { applyTheme } from './shell/theme.ts'
import './style/tokens.css'
import './style/base.css'
import './style/parts.css'
import './style/shell.css'
import './style/screens.css'

applyTheme()

/** A refused request is not retried; one that did not reach the server is. */
const queries = new QueryClient({
  defaultOptions: {
    // The server may be on this machine: being offline says nothing about it.
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      staleTime: 2_000,
      retry: (failures, error) => !(error instanceof ApiError) && failures < 2,
    },
  },
})

const root = document.getElementById('root')
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  )
}
