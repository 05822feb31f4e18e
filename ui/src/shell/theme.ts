/** Light, dark, or what the system says. */
export type Theme = 'system' | 'light' | 'dark'

const KEY = 'settle.theme'

export function currentTheme(): Theme {
  const theme = stored()
  return theme === 'light' || theme === 'dark' ? theme : 'system'
}

export function setTheme(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme)
  } catch {
    // It lasts as long as the page.
  }
  applyTheme(theme)
}

export function applyTheme(theme: Theme = currentTheme()): void {
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

function stored(): string | null {
  try {
    return localStorage.getItem(KEY)
  } catch {
    return null
  }
}
