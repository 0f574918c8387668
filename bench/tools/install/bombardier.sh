#!/usr/bin/env bash
# bombardier, built from its Go module; the versions of all that goes into it are in bombardier/go.sum. A minute on 2 cores.
set -euo pipefail

source="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/bombardier"
home="${TOLLGATE_LAB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/tollgate/lab}/bombardier"
version="$(awk '$1 == "github.com/codesenberg/bombardier" { print $2 }' "$source/go.mod")"

[ -x "$home/bin/bombardier" ] && [ "$(cat "$home/version" 2>/dev/null)" = "$version" ] && exit 0
command -v go >/dev/null || {
  echo "bombardier: there is no Go toolchain (1.24 or newer); install the package golang-go, or Go as its own site says" >&2
  exit 1
}
mkdir -p "$home/bin"
cd "$source"
CGO_ENABLED=0 go build -trimpath -mod=readonly -o "$home/bin/bombardier" github.com/codesenberg/bombardier
echo "$version" >"$home/version"
