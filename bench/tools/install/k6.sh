#!/usr/bin/env bash
# k6, built from its Go module at one version. Several minutes on 2 cores.
set -euo pipefail

version="v1.8.1"
home="${TOLLGATE_LAB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/tollgate/lab}/k6"

[ -x "$home/bin/k6" ] && [ "$(cat "$home/version" 2>/dev/null)" = "$version" ] && exit 0
command -v go >/dev/null || {
  echo "k6: there is no Go toolchain; install the package golang-go, or Go as its own site says" >&2
  exit 1
}
mkdir -p "$home/bin"
CGO_ENABLED=0 GOBIN="$home/bin" go install -trimpath "go.k6.io/k6@$version"
echo "$version" >"$home/version"
