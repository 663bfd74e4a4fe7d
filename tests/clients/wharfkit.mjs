// The codec of @wharfkit/antelope.
import { ABI, Serializer } from '@wharfkit/antelope'

export function codec(abiText) {
  const abi = ABI.from(abiText)
  return {
    encode: (type, object) => Serializer.encode({ object, type, abi }).array,
    decode: (type, data) => Serializer.objectify(Serializer.decode({ data, type, abi })),
    bytes: (value) => Buffer.from(value, 'hex'),
  }
}
