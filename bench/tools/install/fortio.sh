#!/usr/bin/env bash
# fortio, built from its Go module at one version. Two minutes on 2 cores.
set -euo pipefail

version="v1.66.5"
home="${TOLLGATE_LAB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/tollgate/lab}/fortio"

[ -x "$home/bin/fortio" ] && [ "$(cat "$home/version" 2>/dev/null)" = "$version" ] && exit 0
command -v go >/dev/null || {
  echo "fortio: there is no Go toolchain; install the package golang-go, or Go as its own site says" >&2
  exit 1
}
mkdir -p "$home/bin"
CGO_ENABLED=0 GOBIN="$home/bin" go install -trimpath "fortio.org/fortio@$version"
echo "$version" >"$home/version"
