// The codec of eosjs: types are built from the ABI, values are packed in a SerialBuffer.
import { Serialize } from 'eosjs'

export function codec(abiText) {
  const types = Serialize.getTypesFromAbi(Serialize.createInitialTypes(), JSON.parse(abiText))
  const buffer = (array) => new Serialize.SerialBuffer({ textEncoder: new TextEncoder(), textDecoder: new TextDecoder(), array })
  return {
    encode(type, value) {
      const b = buffer()
      Serialize.getType(types, type).serialize(b, value)
      return b.asUint8Array()
    },
    decode(type, bytes) {
      const b = buffer(bytes)
      const value = Serialize.getType(types, type).deserialize(b)
      if (b.haveReadData()) throw new Error(`${bytes.length - b.readPos} bytes are left after a ${type}`)
      return value
    },
    bytes: (value) => (typeof value === 'string' ? Buffer.from(value, 'hex') : value),
  }
}
