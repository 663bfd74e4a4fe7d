#!/usr/bin/env bash
# Installs the client libraries that the test in this folder runs, as package-lock.json pins them. Wants node 18 or newer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
npm ci --no-audit --no-fund --ignore-scripts
