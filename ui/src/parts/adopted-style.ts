/**
 * Stands in for `react-style-singleton`, by which dialogs keep the page behind them from scrolling: it puts `<style>`
 * elements into the page, which the content policy forbids. Constructed sheets are allowed.
 */
import { useEffect } from 'react'

interface StyleProperties {
  readonly styles: string
  readonly dynamic?: boolean
}

export function styleSingleton(): (properties: StyleProperties) => null {
  return function Style({ styles }) {
    useEffect(() => {
      const sheet = new CSSStyleSheet()
      sheet.replaceSync(styles)
      document.adoptedStyleSheets.push(sheet)
      return () => {
        document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet)
      }
    }, [styles])
    return null
  }
}
