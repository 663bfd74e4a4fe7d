// Uses a chain API through a client library: node chain.mjs eosjs|wharfkit URL
//
// Each line of standard input is a signed transaction, as the body of a push_transaction request. For each, it reads what
// wallets and explorers read, pushes the transaction, and prints one line: {"head":…, "push": the transaction id}, or
// {"head":…, "refused": why}. It ends with 1 at the first read that fails.
import { createInterface } from 'node:readline'
import { JsonRpc } from 'eosjs'
import { APIClient, FetchProvider, PackedTransaction, SignedTransaction } from '@wharfkit/antelope'

const [library, url] = process.argv.slice(2)

function eosjs() {
  const rpc = new JsonRpc(url, { fetch })
  return {
    async read() {
      const info = await rpc.get_info()
      const byNum = await rpc.get_block(5)
      const byId = await rpc.get_block(byNum.id)
      const account = await rpc.get_account('eosio')
      const rows = await rpc.get_table_rows({ json: true, code: 'eosio', scope: 'eosio', table: 'rows' })
      if (byId.block_num !== 5 || account.account_name !== 'eosio' || rows.rows.length !== 0) throw new Error('a wrong answer')
      return info.head_block_num
    },
    async push(trx) {
      const result = await rpc.push_transaction({
        signatures: trx.signatures,
        serializedTransaction: Buffer.from(trx.packed_trx, 'hex'),
      })
      return result.transaction_id
    },
  }
}

function wharfkit() {
  const { chain } = new APIClient({ provider: new FetchProvider(url, { fetch }) }).v1
  return {
    async read() {
      const info = await chain.get_info()
      const byNum = await chain.get_block(5)
      const byId = await chain.get_block(byNum.id)
      const account = await chain.get_account('eosio')
      const rows = await chain.get_table_rows({ json: true, code: 'eosio', scope: 'eosio', table: 'rows' })
      if (byId.block_num.toNumber() !== 5 || String(account.account_name) !== 'eosio' || rows.rows.length !== 0) throw new Error('a wrong answer')
      return info.head_block_num.toNumber()
    },
    async push(trx) {
      const packed = PackedTransaction.from({ ...trx, compression: 0 })
      const signed = SignedTransaction.from({ ...packed.getTransaction(), signatures: packed.signatures })
      const result = await chain.push_transaction(signed)
      return result.transaction_id
    },
  }
}

const client = { eosjs, wharfkit }[library]()
for await (const line of createInterface({ input: process.stdin })) {
  const head = await client.read()
  try {
    console.log(JSON.stringify({ head, push: await client.push(JSON.parse(line)) }))
  } catch (err) {
    console.log(JSON.stringify({ head, refused: String(err) + JSON.stringify(err.json ?? err.response ?? null) }))
  }
}
