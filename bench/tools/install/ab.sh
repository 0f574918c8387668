#!/usr/bin/env bash
# ApacheBench, part of Apache's utilities, as Debian and Ubuntu package it.
set -euo pipefail
command -v ab >/dev/null && exit 0
as_root=(); [ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -q
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -qy --no-install-recommends apache2-utils
