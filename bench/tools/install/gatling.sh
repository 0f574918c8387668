#!/usr/bin/env bash
# Gatling with our one simulation, built by Maven. A minute on 2 cores, most of it for the download.
set -euo pipefail

source="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/gatling"
home="${TOLLGATE_LAB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/tollgate/lab}/gatling"
version="$(sed -n 's,.*<gatling.version>\(.*\)</gatling.version>.*,\1,p' "$source/pom.xml")"
sum="$version $(find "$source.sh" "$source" -type f -print0 | sort -z | xargs -0 cat | cksum)"

[ -x "$home/bin/gatling" ] && [ "$(cat "$home/built-from" 2>/dev/null)" = "$sum" ] && exit 0
for program in java mvn; do
  command -v "$program" >/dev/null || {
    echo "gatling: there is no $program; install the packages openjdk-17-jdk-headless and maven" >&2
    exit 1
  }
done
rm -rf "$home"
mkdir -p "$home/bin"
cp -r "$source" "$home/source"
mvn -q -B -f "$home/source/pom.xml" package
mv "$home/source/target/dependency" "$home/lib"
mv "$home/source/target/load.jar" "$home/lib/"
rm -rf "$home/source"
cat >"$home/bin/gatling" <<'END'
#!/bin/sh
# Arguments are those of Gatling; JAVA_OPTS go to the JVM. Its settings stay in the working directory. It would ask its
# makers for a newer version: the proxy that is not there keeps it from that, and its load knows no proxy.
exec java $JAVA_OPTS --add-opens=java.base/java.lang=ALL-UNNAMED -Djava.util.prefs.userRoot=. \
  -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9 -cp "$(dirname "$(readlink -f "$0")")/../lib/*" \
  io.gatling.app.Gatling --simulation lab.Load "$@"
END
chmod +x "$home/bin/gatling"
echo "$version" >"$home/version"
echo "$sum" >"$home/built-from"
