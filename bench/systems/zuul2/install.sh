#!/bin/sh
# Builds our gateway on Zuul 2 with Maven. A minute at the first time.
set -eu

source="$(cd "$(dirname "$0")" && pwd)"
home="${TOLLGATE_LAB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/tollgate/lab}/zuul2"

for tool in mvn java; do
  command -v "$tool" >/dev/null || {
    echo "zuul2: there is no $tool; install Maven and a JDK, 17 or newer (packages maven and default-jdk-headless)" >&2
    exit 1
  }
done

# Built from a copy, so that nothing lands in the checkout, and moved into place whole.
mkdir -p "$home"
build="$(mktemp -d "$home/build.XXXXXX")"
trap 'rm -rf "$build"' EXIT
cp -r "$source/pom.xml" "$source/src" "$build/"
mvn --batch-mode --quiet --no-transfer-progress --file "$build/pom.xml" package
rm -rf "$home/app"
mkdir "$home/app"
mv "$build/target/gateway.jar" "$build/target/lib" "$home/app/"
(cd "$home/app/lib" && printf '%s\n' *.jar) >"$home/libraries.txt" # says which versions it runs with
echo "installed $home/app/gateway.jar"
