#!/usr/bin/env bash
# oha from crates.io at one version, with the versions of its own lock file. Some 10 minutes on 2 cores.
set -euo pipefail

version="1.16.0"
home="${TOLLGATE_LAB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/tollgate/lab}/oha"

[ -x "$home/bin/oha" ] && [ "$(cat "$home/version" 2>/dev/null)" = "$version" ] && exit 0
command -v cargo >/dev/null || {
  echo "oha: there is no Rust toolchain; install it with rustup" >&2
  exit 1
}
mkdir -p "$home"
CARGO_TARGET_DIR="$home/build" cargo install --quiet --locked --force --root "$home" "oha@$version"
rm -rf "$home/build"
echo "$version" >"$home/version"
