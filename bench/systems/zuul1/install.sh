#!/bin/sh
# Builds our gateway on Zuul 1 with Maven. 2 minutes at the first time.
set -eu

source="$(cd "$(dirname "$0")" && pwd)"
home="${TOLLGATE_LAB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/tollgate/lab}/zuul1"

for tool in mvn java jar; do
  command -v "$tool" >/dev/null || {
    echo "zuul1: there is no $tool; install Maven and a JDK, 17 or newer (packages maven and default-jdk-headless)" >&2
    exit 1
  }
done

# Built from a copy, so that nothing lands in the checkout, and moved into place whole.
mkdir -p "$home"
build="$(mktemp -d "$home/build.XXXXXX")"
trap 'rm -rf "$build"' EXIT
cp -r "$source/pom.xml" "$source/src" "$build/"
mvn --batch-mode --quiet --no-transfer-progress --file "$build/pom.xml" package
mv "$build/target/gateway.jar" "$home/gateway.jar"
# Says which versions it runs with.
jar --list --file "$home/gateway.jar" >"$build/names"
sed -n 's|^BOOT-INF/lib/\(.*\.jar\)$|\1|p' "$build/names" >"$home/libraries.txt"
echo "installed $home/gateway.jar"
