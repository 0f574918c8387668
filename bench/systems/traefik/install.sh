#!/bin/sh
# Builds Traefik at one exact version from its Go module. About 6 minutes on 2 cores.
#
# `go install` refuses a module whose go.mod has replace directives, as Traefik's does. So the module is downloaded with
# its checksum verified, and built in a copy of its own folder: its own go.mod and go.sum then decide every dependency.
set -eu

VERSION=3.6.12
MODULE=github.com/traefik/traefik/v3
home="${TOLLGATE_LAB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/tollgate/lab}/traefik"

if [ -x "$home/bin/traefik" ] && "$home/bin/traefik" version 2>/dev/null | grep -q "^Version: *$VERSION\$"; then
  echo "traefik $VERSION is installed already: $home/bin/traefik"
  exit 0
fi

command -v go >/dev/null || {
  echo "traefik: there is no Go toolchain (1.25 or newer); install the package golang-go, or Go as its own site says" >&2
  exit 1
}

mkdir -p "$home/bin"
build="$(mktemp -d "$home/build.XXXXXX")"
trap 'rm -rf "$build"' EXIT

# From a folder without a go.mod, so that this checkout has no say.
cd "$build"
module_folder="$(go mod download -json "$MODULE@v$VERSION" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",\{0,1\}$/\1/p')"
[ -d "$module_folder" ] || {
  echo "traefik: the module $MODULE@v$VERSION was not downloaded" >&2
  exit 1
}
cp -r "$module_folder" source
chmod -R u+w source
cd source

# The dashboard's page is built with Node and is no part of the module; an empty folder stands in for it.
mkdir -p webui/static
[ -n "$(ls -A webui/static)" ] || echo "The dashboard is not built." >webui/static/index.html

CGO_ENABLED=0 go build -mod=mod -trimpath \
  -ldflags "-s -w -X $MODULE/pkg/version.Version=$VERSION -X $MODULE/pkg/version.Codename=module" \
  -o "$build/traefik" ./cmd/traefik
mv "$build/traefik" "$home/bin/traefik"
"$home/bin/traefik" version
