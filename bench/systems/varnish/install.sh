#!/bin/sh
# Debian's and Ubuntu's Varnish. Its service is not started: the laboratory starts its own.
set -eu
if [ "$(id -u)" -eq 0 ]; then as_root=""; else as_root="sudo"; fi
command -v varnishd >/dev/null 2>&1 || [ -x /usr/sbin/varnishd ] || {
    $as_root apt-get update -q
    $as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends varnish
}
