// Uses an EVM endpoint through a client library: node client.mjs ethers|viem HTTP_URL WS_URL KEY CONTRACT
//
// It reads and sends over HTTP, one transaction to the contract after the other, and subscribes to heads and logs over
// WebSocket. Each line that it prints is {"kind": …}: "read" a head that was polled, "head" and "log" what a subscription
// told, "filter" and "refilter" what a filter told and that it was lost, "sent" a transaction that is in a block, "error"
// anything that a library threw. When standard input ends it stops, waits until it has been told of all that it has sent,
// prints {"kind": "end", "logs": how many logs there are}, and ends.
import { ethers } from 'ethers'
import { createPublicClient, createWalletClient, defineChain, http, webSocket } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'

const [library, url, ws, key, contract] = process.argv.slice(2)
const chainID = 1337
const say = (kind, more) => console.log(JSON.stringify({ kind, ...more }))
const pause = (ms) => new Promise((done) => setTimeout(done, ms))

async function useEthers() {
  // Nothing is answered from memory.
  const calls = new ethers.JsonRpcProvider(url, chainID, { staticNetwork: true, polling: true, pollingInterval: 200, cacheTimeout: -1 })
  const socket = new ethers.WebSocketProvider(ws, chainID, { staticNetwork: true })
  const wallet = new ethers.Wallet(key, calls)
  return {
    head: () => calls.getBlockNumber(),
    block: (tag) => calls.getBlock(tag),
    async send() {
      const sent = await wallet.sendTransaction({ to: contract })
      await sent.wait()
      return sent.hash
    },
    async subscribe(onHead, onLog) {
      await socket.on('block', (number) => onHead({ number }))
      await socket.on({ address: contract }, (log) => onLog(log.transactionHash))
    },
    logs: () => calls.getLogs({ address: contract, fromBlock: 0, toBlock: 'latest' }),
  }
}

async function useViem() {
  const chain = defineChain({ id: chainID, name: 'test', nativeCurrency: { name: 'test', symbol: 'T', decimals: 18 }, rpcUrls: { default: { http: [url] } } })
  // No failure is hidden by asking again.
  const transport = http(url, { batch: true, retryCount: 0, timeout: 60_000 })
  const calls = createPublicClient({ chain, transport, cacheTime: 0, pollingInterval: 200 })
  const socket = createPublicClient({ chain, transport: webSocket(ws, { retryCount: 0, reconnect: false }) })
  const wallet = createWalletClient({ chain, transport, account: privateKeyToAccount(key) })
  const plain = (block) => block && { number: Number(block.number), hash: block.hash }
  let filter
  return {
    head: async () => Number(await calls.getBlockNumber()),
    block: async (tag) => plain(await calls.getBlock(tag === 'latest' ? { blockTag: tag } : { blockNumber: BigInt(tag) })),
    async send() {
      const hash = await wallet.sendTransaction({ to: contract })
      await calls.waitForTransactionReceipt({ hash })
      return hash
    },
    async subscribe(onHead, onLog) {
      const { subscribe } = socket.transport
      const onError = (err) => say('error', { text: `subscription: ${err}` })
      await subscribe({ params: ['newHeads'], onError, onData: ({ result }) => onHead({ number: Number(result.number), hash: result.hash }) })
      await subscribe({ params: ['logs', { address: contract }], onError, onData: ({ result }) => onLog(result.transactionHash) })
    },
    logs: () => calls.getLogs({ address: contract, fromBlock: 0n, toBlock: 'latest' }),
    // What a filter tells; all from the first block on when it is a new one.
    async filtered() {
      try {
        if (filter) return await calls.getFilterChanges({ filter })
        filter = await calls.createEventFilter({ address: contract, fromBlock: 0n })
        return await calls.getFilterLogs({ filter })
      } catch (err) {
        if (!String(err).includes('filter not found')) throw err
        filter = undefined
        say('refilter')
        return []
      }
    },
  }
}

const client = await { ethers: useEthers, viem: useViem }[library]()
const sent = new Set(), logged = new Set(), filtered = new Set()
let stopped = false, told = false

// repeat does something until it is to end. What it throws is an error of the test.
async function repeat(what, ended, ms) {
  while (!ended()) {
    try {
      await what()
    } catch (err) {
      say('error', { text: err.stack ?? String(err) })
    }
    await pause(ms)
  }
}

await client.subscribe((head) => say('head', head), (tx) => {
  logged.add(tx)
  say('log', { tx })
})
process.stdin.resume().on('end', () => { stopped = true })

const reading = repeat(async () => {
  const number = await client.head()
  const [block, latest] = await Promise.all([client.block(number), client.block('latest')])
  if (block?.number !== number) throw new Error(`block ${number} was told, and is not there`)
  if (latest.number < number) throw new Error(`block ${number} was told, and then ${latest.number} as the latest`)
  say('read', { number })
}, () => stopped, 50)

const sending = repeat(async () => {
  const tx = await client.send()
  sent.add(tx)
  say('sent', { tx })
}, () => stopped, 50)

const filtering = client.filtered && repeat(async () => {
  for (const { transactionHash: tx } of await client.filtered()) {
    if (filtered.has(tx)) continue
    filtered.add(tx)
    say('filter', { tx })
  }
}, () => told, 200)

await reading
await sending
while (![...sent].every((tx) => logged.has(tx) && (!client.filtered || filtered.has(tx)))) await pause(50)
told = true
await filtering
say('end', { logs: (await client.logs()).length })
process.exit()
