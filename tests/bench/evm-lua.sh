#!/usr/bin/env bash
# Measures what a policy in Lua costs in front of EVM JSON-RPC: one gateway with a listener for each policy, all before the
# same mock nodes, in turn. Prints a table in Markdown, the best of the rounds for each, which on a busy machine is the one that
# was disturbed least. Linux; all on loopback.
#
#   EVMLOAD=evmload       the load generator, which also plays the nodes
#   FLOTILLA=./flotilla
#   NODES="2 8"           how many nodes a listener has, one table row each
#   POLICIES="none ..."   which policies: none, round_robin, as-it-is, score, select; "none" is always needed
#   SECONDS_EACH=3        how long each run takes, after one second that does not count
#   ROUNDS=5              how often
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
evmload=${EVMLOAD:-evmload} flotilla=${FLOTILLA:-./flotilla}
each=${SECONDS_EACH:-3} rounds=${ROUNDS:-5} nodes=${NODES:-2 8}
policies=${POLICIES:-none round_robin as-it-is score select}

work=$(mktemp -d)
pids=()
stop() { for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done; wait 2>/dev/null || true; rm -rf "$work"; }
trap stop EXIT
start() { "$@" >"$work/log" 2>&1 & pids+=($!); pid=$!; }
there() { sleep "$2"; kill -0 "$1" 2>/dev/null || { cat "$work/log" >&2; echo "a program has ended at its start; is its port in use?" >&2; exit 1; }; }

# One process is all nodes: each has an address of its own.
start "$evmload" mock -addr 0.0.0.0:18599; there "$pid" 0.3

cat >"$work/as-it-is.lua" <<'LUA'
function select(request, servers) return servers end
LUA
cat >"$work/score.lua" <<'LUA'
function score(request, server)
  return server.labels.rack == "r1" and 1 or 0
end
LUA
cat >"$work/select.lua" <<'LUA'
function select(request, servers)
  local picked = {}
  for _, s in ipairs(servers) do
    if s.lag < 3 and s.errors < 10 then picked[#picked + 1] = s end
  end
  table.sort(picked, function(a, b) return a.labels.rack == "r1" and b.labels.rack ~= "r1" end)
  return picked
end
LUA

# Below the ports that clients of the nodes are given.
port=28600
declare -A ports
for n in $nodes; do
  for p in $policies; do
    ports[$n/$p]=$port
    {
      echo "listener \"evm\" \"n$n-$p\" {"
      echo "  address = \"127.0.0.1:$port\""
      case $p in
        none) ;;
        round_robin) echo "  policy \"round_robin\" {}" ;;
        *) echo "  policy \"lua\" { script = \"$work/$p.lua\" }" ;;
      esac
      echo "  health {"
      echo "    readmit   = \"0s\""
      echo "    subscribe = false # The mock nodes have neither WebSocket,"
      echo "    agree     = false # nor blocks."
      echo "  }"
      for i in $(seq "$n"); do
        echo "  server \"s$i\" {"
        echo "    endpoint = \"http://127.0.8.$i:18599\""
        echo "    labels   = { rack = \"r$((i % 2 + 1))\" }"
        echo "  }"
      done
      echo "}"
    } >>"$work/flotilla.hcl"
    port=$((port + 1))
  done
done
start "$flotilla" run --config "$work/flotilla.hcl"; gateway=$pid
there "$gateway" 2

body='{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}'
for _ in $(seq "$rounds"); do
  for n in $nodes; do
    for p in $policies; do
      line=$("$evmload" run -url "http://127.0.0.1:${ports[$n/$p]}/" -c 64 -d "${each}s" -body "$body" -pid "$gateway")
      echo "$n $p $line" >>"$work/runs"
    done
  done
done
python3 - "$work/runs" <<'PY'
import collections, json, sys
runs = collections.defaultdict(list)
for line in open(sys.argv[1]):
    n, policy, text = line.split(" ", 2)
    runs[int(n), policy].append(json.loads(text))
print("| nodes | policy | requests/s | of none | CPU-s per 10,000 | of none | errors |")
print("|---:|---|---:|---:|---:|---:|---:|")
for (n, policy), got in runs.items():
    best = lambda policy: (max(r["rps"] for r in runs[n, policy]), min(r["cpu_s_per_10k"] for r in runs[n, policy]))
    (rps, cpu), (most, least) = best(policy), best("none")
    print(f"| {n} | {policy} | {rps:,.0f} | {rps / most:.0%} | {cpu:.3f} | {cpu / least:.0%} | {sum(r['errors'] for r in got)} |")
PY
