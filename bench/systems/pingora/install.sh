#!/bin/sh
# Builds our gateway on Pingora with the versions of its own lock file. About 6 minutes on 2 cores.
set -eu

source="$(cd "$(dirname "$0")" && pwd)"
home="${TOLLGATE_LAB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/tollgate/lab}/pingora"

command -v cargo >/dev/null || {
  echo "pingora: there is no Rust toolchain (1.85 or newer); install it with rustup" >&2
  exit 1
}
for tool in cmake cc; do
  command -v "$tool" >/dev/null || {
    echo "pingora: there is no $tool, which builds its C libraries; install the packages cmake and build-essential" >&2
    exit 1
  }
done

mkdir -p "$home"
CARGO_TARGET_DIR="$home/build" cargo install --quiet --locked --force --path "$source" --root "$home"
cp "$source/Cargo.lock" "$home/Cargo.lock" # says which versions the program holds
echo "installed $home/bin/lab-pingora"
