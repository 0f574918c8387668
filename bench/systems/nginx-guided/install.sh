#!/bin/sh
# Builds the newest nginx that a package registry has (the crate nginx-src), optimised at link time and guided by a profile,
# as Tollgate is. The profile is taken under loads of the kinds that Tollgate's has: bodies of three sizes, connections that
# close, a browser's header fields, the access log, TLS, HTTP/2. About 3 minutes on two cores.
set -eu
version="=1.28.5"
home="$TOLLGATE_LAB_HOME/nginx-guided"
port="${NGINX_GUIDED_PORT:-18480}" # this one and the next three
sh "$TOLLGATE_LAB_SYSTEM/../nginx/install.sh"
if [ "$(id -u)" -eq 0 ]; then as_root=""; else as_root="sudo"; fi
$as_root apt-get update -q
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
    gcc make libpcre2-dev zlib1g-dev libssl-dev nghttp2-client apache2-utils openssl

rm -rf "$home/build"
mkdir -p "$home/build/crate/src" "$home/build/work"
cd "$home/build"
printf '[package]\nname = "source"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nnginx-src = "%s"\n[workspace]\n' "$version" >crate/Cargo.toml
: >crate/src/lib.rs
source="$(cd crate && cargo metadata --format-version 1 | tr ',' '\n' | sed -n 's|.*"manifest_path":"\(.*/nginx-src-[^/]*\)/Cargo.toml".*|\1/nginx|p' | head -n 1)"
[ -d "$source/auto" ] || { echo "the crate nginx-src holds no source of nginx" >&2; exit 1; }
# nginx's own `configure` is not in its repository's root.
cp -r "$source" nginx

# build FLAGS: nginx with the modules of its own packages that the studies use. The flags are not for the programs with
# which `configure` tries the compiler, because those would leave profiles too.
build() {
    (cd nginx && rm -rf objs && auto/configure --prefix="$home" --with-threads --with-file-aio --with-http_ssl_module \
        --with-http_v2_module --with-http_gunzip_module --with-http_gzip_static_module --with-http_stub_status_module \
        --with-http_auth_request_module --with-http_realip_module --with-stream --with-stream_ssl_module \
        --with-cc-opt="-O3 -flto=auto" --with-ld-opt="-O3 -flto=auto" &&
        sed -i "s|^CFLAGS =.*|& $1 -Wno-error|; s|^LINK =.*|& $1|" objs/Makefile && make -s -j"$(nproc)") >"$home/build/log" 2>&1 ||
        { tail -n 20 "$home/build/log" >&2; exit 1; }
}

# The profile names objects by their paths, so both builds happen in one folder.
build "-fprofile-generate=$home/build/profile -fprofile-update=prefer-atomic"

openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out certificate.pem -days 30 -subj /CN=localhost 2>/dev/null
mkdir -p root
head -c 4096 /dev/urandom >root/4k
head -c 65536 /dev/urandom >root/64k
common="daemon off; worker_processes 1; events { worker_connections 1024; }"
[ -n "$as_root" ] || common="user root; $common"
temporary=""
for kind in client_body proxy fastcgi uwsgi scgi; do temporary="$temporary ${kind}_temp_path work/$kind;"; done
cat >origin.conf <<END
$common
pid work/origin.pid;
http {
  $temporary access_log off; keepalive_requests 1000000000;
  server { listen 127.0.0.1:$port; root $home/build/root; location = /2 { return 200 ok; } }
}
END
proxy="proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host \$http_host;
  proxy_set_header X-Forwarded-For \$remote_addr; proxy_set_header X-Forwarded-Proto \$scheme; proxy_set_header X-Forwarded-Host \$http_host;"
cat >trained.conf <<END
$common
pid work/trained.pid;
http {
  $temporary keepalive_requests 1000000000;
  upstream origin { server 127.0.0.1:$port; keepalive 256; keepalive_requests 1000000000; }
  server { listen 127.0.0.1:$((port + 1)); access_log off; location / { $proxy } }
  server { listen 127.0.0.1:$((port + 2)); access_log work/access.log combined; location / { $proxy } }
  server {
    listen 127.0.0.1:$((port + 3)) ssl; http2 on; access_log off;
    ssl_certificate $home/build/certificate.pem; ssl_certificate_key $home/build/key.pem;
    location / { $proxy }
  }
}
END
nginx_of_system="$(command -v nginx || echo /usr/sbin/nginx)"
"$nginx_of_system" -e work/origin.log -p "$home/build" -c "$home/build/origin.conf" &
origin=$!
nginx/objs/nginx -e work/trained.log -p "$home/build" -c "$home/build/trained.conf" &
trained=$!
trap 'kill $origin $trained 2>/dev/null || true' EXIT
sleep 1

load() { h2load -D 3 "$@" >>"$home/build/loads" 2>&1; }
plain="http://127.0.0.1:$((port + 1))"
secure="https://127.0.0.1:$((port + 3))"
for connections in 1 64 256; do load --h1 -c "$connections" "$plain/2"; done
load --h1 -c 64 "$plain/4k"
load --h1 -c 64 "$plain/64k"
# h2load waits without end for connections that close.
ab -q -c 64 -t 3 -n 1000000 "$plain/2" >>loads 2>&1
load --h1 -c 64 -H "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0" \
    -H "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8" -H "Accept-Encoding: gzip, deflate, br" \
    -H "Accept-Language: en-GB,en;q=0.9,zh-CN;q=0.8" -H "Referer: http://www.example.com/catalogue" \
    -H "Cookie: session=k7Qz0pXwk7Qz0pXwk7Qz0pXwk7Qz0pXw; theme=dark" "$plain/2"
load --h1 -c 64 "http://127.0.0.1:$((port + 2))/2"
load --h1 -c 64 "$secure/2"
load --h1 -c 64 "$secure/64k"
load -c 8 -m 32 "$secure/2"
load -c 8 -m 8 "$secure/64k"
# The counts are written when the worker ends in good order.
kill -QUIT "$trained"
wait "$trained" || true
kill -QUIT "$origin"
trap - EXIT
[ -n "$(ls profile 2>/dev/null)" ] || { echo "the training has left no profile" >&2; exit 1; }

build "-fprofile-use=$home/build/profile -fprofile-correction -Wno-missing-profile"
cp nginx/objs/nginx "$home/nginx"
rm -rf "$home/build"
echo "installed $home/nginx"
