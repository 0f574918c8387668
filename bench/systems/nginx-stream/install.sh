#!/bin/sh
# Debian's and Ubuntu's nginx with its module `stream`. Its service is not started: the laboratory starts its own.
set -eu
sh "$TOLLGATE_LAB_SYSTEM/../nginx/install.sh"
if [ "$(id -u)" -eq 0 ]; then as_root=""; else as_root="sudo"; fi
[ -e /usr/lib/nginx/modules/ngx_stream_module.so ] || {
    $as_root apt-get update -q
    $as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends libnginx-mod-stream
}
