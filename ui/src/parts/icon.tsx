/** The icons of the interface, drawn on a grid of 16. */
const SHAPES = {
  layers: 'M5 3.5h6M3.5 8h9M2 12.5h12',
  overview: 'M2.5 13.5v-4M6.2 13.5v-7M9.8 13.5v-5M13.5 13.5v-11',
  databases:
    'M2.5 4c0-1.1 2.5-2 5.5-2s5.5.9 5.5 2-2.5 2-5.5 2-5.5-.9-5.5-2zM2.5 4v8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2V4M2.5 8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2',
  replication: 'M2.5 6h10M9.5 3l3 3-3 3M13.5 11h-10M6.5 8.5 3.5 11l3 2.5',
  users: 'M8 8a2.75 2.75 0 1 0 0-5.5A2.75 2.75 0 0 0 8 8zM2.5 13.5c.6-2.3 2.8-3.5 5.5-3.5s4.900 1.2 5.5 3.500',
  settings: 'M2.5 4.500h6M11.500 4.500h2M10 3v3M2.500 11.500h2M7.500 11.500h6M6 10v3',
  log: 'M3 3.500h10M3 6.500h7M3 9.500h10M3 12.500h5',
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.700 10.700 14 14',
  plus: 'M8 3v10M3 8h10',
  close: 'M4 4l8 8M12 4l-8 8',
  more: 'M3.500 7.500v1M8 7.500v1M12.500 7.500v1',
  back: 'M10 3 5 8l5 5',
  forward: 'M6 3l5 5-5 5',
  menu: 'M2.500 4h11M2.500 8h11M2.500 12h11',
  sun: 'M8 10.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM8 1.500v1.500M8 13v1.500M1.500 8H3M13 8h1.500M3.400 3.400l1 1M11.600 11.600l1 1M3.400 12.600l1-1M11.600 4.400l1-1',
  out: 'M6 2.500H3v11h3M7 8h6.500M11 5.500 13.500 8 11 10.500',
  in: 'M10 2.500h3v11h-3M2.500 8H9M6.500 5.500 9 8l-2.500 2.500',
  pause: 'M5.500 3v10M10.500 3v10',
  play: 'M5 3l8 5-8 5z',
  check: 'M3 8.500 6.500 12 13 4.500',
  columns: 'M2.500 3h11v10h-11zM6.200 3v10M9.800 3v10',
  file: 'M4 1.500h5l3 3v10H4zM9 1.500v3h3',
  warning: 'M8 2 14.500 13.500h-13zM8 6.500v3.500M8 12h.01',
  refresh: 'M13 8a5 5 0 1 1-1.500-3.600M13 2v3h-3',
} as const

export type IconName = keyof typeof SHAPES

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={SHAPES[name]} />
    </svg>
  )
}
