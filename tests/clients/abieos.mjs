// The codec of @eosrio/node-abieos, which binds the C++ library of the node itself.
import { createRequire } from 'node:module'

const { Abieos } = createRequire(import.meta.url)('@eosrio/node-abieos')

export function codec(abiText) {
  const abieos = Abieos.getInstance()
  if (!abieos.loadAbi('0', abiText)) throw new Error('abieos does not take the ABI')
  return {
    encode: (type, value) => Buffer.from(abieos.jsonToHex('0', type, value), 'hex'),
    decode: (type, bytes) => abieos.binToJson('0', type, Buffer.from(bytes)),
    bytes: (value) => Buffer.from(value, 'hex'),
  }
}
