#!/bin/sh
# python-venv.sh FOLDER: makes a virtual environment of Python there, unless there is one. Debian and Ubuntu have what makes
# them in a package apart from Python; without it Python leaves a folder without pip, which is made again.
set -eu
[ ! -x "$1/bin/pip" ] || exit 0
python3 -c 'import ensurepip' 2>/dev/null || {
    if [ "$(id -u)" -eq 0 ]; then as_root=""; else as_root="sudo"; fi
    $as_root apt-get update -q
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends python3-venv
}
python3 -m venv "$1"
