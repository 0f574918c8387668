#!/bin/sh
# Builds the reverse proxy of Go's standard library. It has no dependency beyond the toolchain.
set -eu

source="$(cd "$(dirname "$0")" && pwd)"
home="${TOLLGATE_LAB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/tollgate/lab}/go-reverseproxy"

command -v go >/dev/null || {
  echo "go-reverseproxy: there is no Go toolchain (1.24 or newer); install the package golang-go, or Go as its own site says" >&2
  exit 1
}

mkdir -p "$home/bin"
cd "$source"
CGO_ENABLED=0 go build -trimpath -o "$home/bin/go-reverseproxy" .
go version "$home/bin/go-reverseproxy" >"$home/version"
cat "$home/version"
