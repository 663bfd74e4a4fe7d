#!/usr/bin/env bash
# The chain API of flotilla beside that of fleet-router and HAProxy in HTTP mode: the same two nodes behind each, one
# gateway after the other, in turns. Prints what the load generator says of each run.
#
#   FLOTILLA=./flotilla FLEET_ROUTER=fleet-router EVMLOAD=evmload tests/bench/chain-api.sh
#
# EVMLOAD is a load generator with the flags of evmload: -url, -body, -c (connections), -d (duration), -pid (whose CPU).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${FLOTILLA:=flotilla}" "${FLEET_ROUTER:=fleet-router}" "${HAPROXY:=haproxy}" "${EVMLOAD:=evmload}" "${ROUNDS:=3}" "${DURATION:=4s}"

dir=$(mktemp -d)
pids=()
finish() {
  [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$dir"
}
trap finish EXIT

go build -o "$dir/mocknodeos" ./tests/bench/mocknodeos
for port in 28881 28882; do
  "$dir/mocknodeos" -addr "127.0.0.1:$port" &
  pids+=($!)
done

# fleet_file SHIP_PORT API_PORT ADMIN_PORT
fleet_file() {
  cat <<J
{"listen_address": "127.0.0.1", "listen_port": $1, "metrics_address": "127.0.0.1", "metrics_port": $3,
 "upstream_reconnect_ms": 3000, "upstream_monitoring_ms": 5000, "upstream_status_ms": 5000,
 "chain_id": "$(printf 'c1%.0s' $(seq 32))",
 "servers": [{"name": "a", "enabled": true, "api_endpoint": "127.0.0.1:28881"},
             {"name": "b", "enabled": true, "api_endpoint": "127.0.0.1:28882"}],
 "chain_api": {"listen_port": $2}}
J
}

fleet_file 28700 28800 28900 >"$dir/flotilla.json"
fleet_file 28701 28801 28901 >"$dir/fleet-router.json"
cat >"$dir/haproxy.cfg" <<'C'
global
  maxconn 4000
  nbthread 2
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  http-reuse always
frontend f
  bind 127.0.0.1:28802
  default_backend b
backend b
  server a 127.0.0.1:28881
  server b 127.0.0.1:28882
C

names=(flotilla fleet-router haproxy) ports=(28800 28801 28802) gateways=()
"$FLOTILLA" run --config "$dir/flotilla.json" >"$dir/flotilla.log" 2>&1 & gateways+=($!)
"$FLEET_ROUTER" run --config "$dir/fleet-router.json" >"$dir/fleet-router.log" 2>&1 & gateways+=($!)
"$HAPROXY" -db -q -f "$dir/haproxy.cfg" >"$dir/haproxy.log" 2>&1 & gateways+=($!)
pids+=("${gateways[@]}")
sleep 4

# ask PATH BODY CONNECTIONS
ask() {
  local i
  for i in 0 1 2; do
    printf '%-16s %-14s ' "$1" "${names[i]}"
    "$EVMLOAD" run -url "http://127.0.0.1:${ports[i]}/v1/chain/$1" -body "$2" -c "$3" -d "$DURATION" -warm 1s -pid "${gateways[i]}"
  done
}

for _ in $(seq "$ROUNDS"); do
  ask get_info ' ' 64
  ask get_block_info '{"block_num":100}' 64
  ask get_block '{"block_num_or_id":100}' 8
done
