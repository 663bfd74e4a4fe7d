// Takes blocks, traces and deltas through a SHiP endpoint and decodes all of it with a client library.
//
//   node stream.mjs eosjs|wharfkit|abieos ws://HOST:PORT START
//
// Prints one line of JSON for each block, with the SHA-256 of all that was decoded of it, and exits 0 at the end of its
// standard input (Ctrl-D). Whatever a client would stumble over ends it with exit code 1 and a line on standard error. A block that comes twice in a
// row gets two lines, and only the second one need be whole: nodes send one like that now and then while they write it.
import { createHash } from 'node:crypto'
import WebSocket from 'ws'

const libraries = ['eosjs', 'wharfkit', 'abieos']
const [library, url, start] = process.argv.slice(2)
if (!libraries.includes(library) || !(Number(start) > 0)) fail(`usage: node stream.mjs ${libraries.join('|')} URL START`)

const { codec } = await import(`./${library}.mjs`)
const silence = 30_000 // milliseconds
let lib // the library's codec, once the ABI is there
let next = Number(start)
let before // the id of the block before

// The library decides about compression as it does by default, so the endpoint meets an offer of it.
const socket = new WebSocket(url)
let timer = setTimeout(silent, silence)

process.stdin.on('end', () => {
  clearTimeout(timer)
  socket.removeAllListeners() // what was sent before the close was read is of no interest
  socket.close()
})
process.stdin.resume()

socket.on('error', (e) => fail(`connection: ${e.message}`))
socket.on('close', (code, reason) => fail(`closed before block ${next}: ${code} ${reason}`))
socket.on('message', (data, isBinary) => {
  clearTimeout(timer)
  timer = setTimeout(silent, silence)
  try {
    if (lib) return result(data)
    if (isBinary) fail('the ABI did not come as text')
    lib = codec(data.toString())
    send('get_blocks_request_v0', {
      start_block_num: next,
      end_block_num: 0xffffffff,
      max_messages_in_flight: 10,
      have_positions: [],
      irreversible_only: false,
      fetch_block: true,
      fetch_traces: true,
      fetch_deltas: true,
    })
  } catch (e) {
    fail(`block ${next}: ${e.stack}`)
  }
})

function result(data) {
  const [type, r] = lib.decode('result', data)
  if (type !== 'get_blocks_result_v0') fail(`a ${type} in place of block ${next}`)
  const { block_num: num, block_id: id } = r.this_block
  const again = num === next - 1 && id === before
  if (num !== next && !again) fail(`block ${num} in place of ${next}`)
  if (before && !again && r.prev_block.block_id !== before) fail(`block ${num} does not link to the block ${num - 1} that was sent`)

  const block = lib.decode('signed_block', lib.bytes(r.block))
  const traces = r.traces ? lib.decode('transaction_trace[]', lib.bytes(r.traces)) : []
  const deltas = r.deltas ? lib.decode('table_delta[]', lib.bytes(r.deltas)) : []
  let rows = 0
  for (const [, delta] of deltas) {
    for (const row of delta.rows) {
      row.data = lib.decode(delta.name, lib.bytes(row.data))
      rows++
    }
  }
  const actions = traces.reduce((n, [, trace]) => n + trace.action_traces.length, 0)
  const sha256 = createHash('sha256').update(JSON.stringify([block, traces, deltas])).digest('hex')
  console.log(JSON.stringify({ num, id, size: data.length, transactions: block.transactions.length, actions, rows, sha256 }))

  before = id
  if (!again) next++
  send('get_blocks_ack_request_v0', { num_messages: 1 })
}

function send(type, value) {
  socket.send(lib.encode('request', [type, value]))
}

function silent() {
  fail(`nothing came for ${silence} ms in place of block ${next}`)
}

function fail(why) {
  console.error(`${library}: ${why}`)
  process.exit(1)
}
