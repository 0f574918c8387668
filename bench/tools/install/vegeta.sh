#!/usr/bin/env bash
# vegeta, built from its Go module; the versions of all that goes into it are in vegeta/go.sum. A minute on 2 cores.
set -euo pipefail

source="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/vegeta"
home="${TOLLGATE_LAB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/tollgate/lab}/vegeta"
version="$(awk '$1 == "github.com/tsenart/vegeta/v12" { print $2 }' "$source/go.mod")"

[ -x "$home/bin/vegeta" ] && [ "$(cat "$home/version" 2>/dev/null)" = "$version" ] && exit 0
command -v go >/dev/null || {
  echo "vegeta: there is no Go toolchain (1.24 or newer); install the package golang-go, or Go as its own site says" >&2
  exit 1
}
mkdir -p "$home/bin"
cd "$source"
CGO_ENABLED=0 go build -trimpath -mod=readonly -o "$home/bin/vegeta" github.com/tsenart/vegeta/v12
echo "$version" >"$home/version"
