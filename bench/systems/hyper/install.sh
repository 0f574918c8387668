#!/bin/sh
# Builds our proxy on hyper with the versions of its own lock file. Under a minute on 2 cores.
set -eu

source="$(cd "$(dirname "$0")" && pwd)"
home="${TOLLGATE_LAB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/tollgate/lab}/hyper"

command -v cargo >/dev/null || {
  echo "hyper: there is no Rust toolchain (1.85 or newer); install it with rustup" >&2
  exit 1
}

mkdir -p "$home"
CARGO_TARGET_DIR="$home/build" cargo install --quiet --locked --force --path "$source" --root "$home"
cp "$source/Cargo.lock" "$home/Cargo.lock" # says which versions the program holds
echo "installed $home/bin/lab-hyper"
