#!/usr/bin/env bash
# h2load, part of nghttp2's clients, as Debian and Ubuntu package it.
set -euo pipefail
command -v h2load >/dev/null && exit 0
as_root=(); [ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -q
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -qy --no-install-recommends nghttp2-client
