#!/usr/bin/env bash
# Measures EVM JSON-RPC without a proxy, through flotilla, as a listener in HCL and in the place of erigon_proxy, and through
# HAProxy, in front of the same two mock nodes, all in turn. Prints a table in Markdown. Linux; all on loopback.
#
#   EVMLOAD=evmload       the load generator
#   MOCKEVM=              the program that plays the nodes; without it mockevm is built
#   FLOTILLA=./flotilla   HAPROXY=haproxy
#   ERIGON_PROXY=         the program of erigon_proxy; without it there are no rows of it
#   SECONDS_EACH=5        how long each run takes, after one second that does not count
#   ROUNDS=3              how often
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
evmload=${EVMLOAD:-evmload} flotilla=${FLOTILLA:-./flotilla} haproxy=${HAPROXY:-haproxy}
each=${SECONDS_EACH:-5} rounds=${ROUNDS:-3}

bin=$(mktemp -d)
mock=${MOCKEVM:-$bin/mockevm}
[ -n "${MOCKEVM:-}" ] || (cd "$here" && go build -o "$mock" ./mockevm)

pids=()
stop() { rm -rf "$bin"; for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done; wait 2>/dev/null || true; }
trap stop EXIT
start() { "$@" >/dev/null 2>&1 & pids+=($!); pid=$!; }
# there PID SECONDS: waits, and fails when the program has ended meanwhile.
there() { sleep "$2"; kill -0 "$1" 2>/dev/null || { echo "a program has ended at its start; is its port in use?" >&2; exit 1; }; }
# finish ends the program that was started last.
finish() { kill "$pid"; wait "$pid" || true; unset 'pids[-1]'; }

for node in 1 2; do start "$mock" -addr "127.0.9.$node:8545"; done
small=$pid
for node in 3 4; do start "$mock" -addr "127.0.9.$node:8545" -size 102400; done
large=$pid
for p in "${pids[@]}"; do there "$p" 0.3; done

# The drop-in and erigon_proxy have their ports for themselves, so each is there only while it is measured.
dropin() {
  start env INSTANCES=127.0.9.1,127.0.9.2 REFERENCE_ADDR=127.0.0.1:9 SERVER_KEY=none BIND_ADDR=127.0.9.9 READMIT_SECONDS=0 \
    SHUTDOWN_DRAIN_SECONDS=0 "$@"
}

# load GATEWAY ADDRESS PID CASE BODY: one row. Without a proxy it is all of the load on one node, and the CPU is the node's.
load() {
  local line
  line=$("$evmload" run -url "http://$2/" -c 64 -d "${each}s" -body "$5" -pid "$3")
  python3 - "$4" "$1" "$line" <<'PY'
import json, sys
case, gateway, r = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
print(f"| {case} | {gateway} | {r['rps']:,.0f} | {r['p99_ms']:.1f} | {r.get('cpu_s_per_10k', 0):.2f} | {r.get('rss_kib', 0) / 1024:.0f} | {r['errors']} |", flush=True)
PY
}

one='{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}'
block='{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["latest",false]}'
code='{"jsonrpc":"2.0","id":1,"method":"eth_getCode","params":["0x00000000000000000000000000000000000c0de0","latest"]}'
batch="[$one"
for _ in 2 3 4 5 6 7 8 9 10; do batch+=",$one"; done
batch+=']'

start "$haproxy" -db -q -f "$here/evm-haproxy.cfg"; h=$pid
there "$h" 1
start "$flotilla" run --config "$here/evm.hcl"; f=$pid
there "$f" 2
echo "| calls | gateway | requests/s | p99 ms | CPU-s per 10,000 | MiB | errors |"
echo "|---|---|---:|---:|---:|---:|---:|"
for _ in $(seq "$rounds"); do
  load 'no proxy' 127.0.9.2:8545 "$small" eth_blockNumber "$one"
  load haproxy 127.0.0.1:18545 "$h" eth_blockNumber "$one"
  load flotilla 127.0.0.1:28545 "$f" eth_blockNumber "$one"
  dropin "$flotilla" erigon-proxy; there "$pid" 2
  load 'flotilla erigon-proxy' 127.0.9.9:8545 "$pid" eth_blockNumber "$one"
  finish
  if [ -n "${ERIGON_PROXY:-}" ]; then
    dropin "$ERIGON_PROXY"; there "$pid" 3
    load erigon_proxy 127.0.9.9:8545 "$pid" eth_blockNumber "$one"
    finish
  fi
  load 'no proxy' 127.0.9.2:8545 "$small" 'latest block' "$block"
  load haproxy 127.0.0.1:18545 "$h" 'latest block' "$block"
  load flotilla 127.0.0.1:28545 "$f" 'latest block' "$block"
  load 'no proxy' 127.0.9.2:8545 "$small" 'batch of 10' "$batch"
  load haproxy 127.0.0.1:18545 "$h" 'batch of 10' "$batch"
  load flotilla 127.0.0.1:28545 "$f" 'batch of 10' "$batch"
  load 'no proxy' 127.0.9.4:8545 "$large" '100 kB' "$code"
  load haproxy 127.0.0.1:18546 "$h" '100 kB' "$code"
  load flotilla 127.0.0.1:28546 "$f" '100 kB' "$code"
done
