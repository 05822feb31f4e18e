/** The first revision of a document without members of its own. */
export const EMPTY = '1-967a00dff5e02add41819138abb3284d'

/** What documents have as their first revision on every server of the family: body and revision. */
export const FIRST_REVISIONS: readonly (readonly [body: string, revision: string])[] = [
  ['{}', EMPTY],
  ['{"a":1}', '1-23202479633c2b380f79507a776743d5'],
  ['{"a":2}', '1-3975759ccff3842adf690a5c10caee42'],
  ['{"b":2}', '1-d33fb05384fa65a8081da2046595de0f'],
  ['{"a":[1,2,3]}', '1-308048961a84beb0c9e99e07facf0f5f'],
  ['{"a":[1,256]}', '1-d0259a7a9a59173bfe7d4da469ac3cb6'],
  ['{"a":-1}', '1-36263f269caa4db3b190ba9d68b9bdf8'],
  ['{"a":300}', '1-6abfe9211b0ed3caaa3e74cf027ad515'],
  ['{"a":2147483648}', '1-b4f640a52110ec1afa2f52256780e40e'],
  ['{"a":18446744073709551616}', '1-02621d7913faebde4c9d1efebd8500b4'],
  ['{"a":1.5}', '1-c2d94f8474340cfb2476ac9ac18efe99'],
  ['{"a":1.0}', '1-8a159b695bf2bd957f1a435bfd6e1739'],
  ['{"a":"é"}', '1-a84b195a8ccf4e92812a4f2bb2272b90'],
  ['{"a":null,"b":true}', '1-95d419458ea37688c21f5c600fa209c8'],
  ['{"a":{"b":[]}}', '1-7d539d9f12832b406108fea07048f32f'],
  ['{"val":8}', '1-55b9a29311341e07ec0a7ca13bc1b59f'],
  ['{"partitioned_doc":true}', '1-43d86359741cb629c0953a2beb6e9d7a'],
  ['{"ancestors":["11111"],"value":"hello"}', '1-0eee81fecb5aa4f51e285c621271ff02'],
  ['{"ancestors":["22222","11111"],"value":"world"}', '1-11e42b44fdb3d3784602eca7c0332a43'],
  ['{"servings":4,"subtitle":"Delicious with fresh bread","title":"Fish Stew"}', '1-9c65296036141e575d32ba9c034dd3ee'],
]
