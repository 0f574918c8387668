#!/usr/bin/env bash
# siege as Debian and Ubuntu package it.
set -euo pipefail
command -v siege >/dev/null && exit 0
as_root=(); [ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -q
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -qy --no-install-recommends siege
