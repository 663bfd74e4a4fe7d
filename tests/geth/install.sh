#!/usr/bin/env bash
# Installs what the tests in this folder run: geth, built from its Go module, and the client libraries, as
# package-lock.json pins them.
#
#   FLOTILLA_GETH  the folder for geth. Default: ${XDG_CACHE_HOME:-$HOME/.cache}/flotilla-geth
#
# Wants Go, node 18 or newer, and npm. Building geth takes some three minutes on two idle cores and 90 MB on disk; it is
# done once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

version=v1.17.10
target=${FLOTILLA_GETH:-${XDG_CACHE_HOME:-$HOME/.cache}/flotilla-geth}
if [ -x "$target/geth-$version" ]; then
  echo "geth is installed: $target/geth-$version"
else
  mkdir -p "$target"
  # A half-done install is never taken for a whole one: it is moved to its name at the end.
  fresh=$(mktemp -d "$target/build.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  # Outside of this module, so that neither go.mod nor its tools matter.
  (cd "$fresh" && GOBIN=$fresh GOFLAGS= go install "github.com/ethereum/go-ethereum/cmd/geth@$version")
  mv "$fresh/geth" "$target/geth-$version"
  rm -rf "$fresh"
  trap - EXIT
  echo "geth is installed: $target/geth-$version"
fi
npm ci --no-audit --no-fund --ignore-scripts
