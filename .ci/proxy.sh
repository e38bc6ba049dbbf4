#!/usr/bin/env bash
# Streams through nginx with docker/nginx.conf as it is, but for the ports. `make proxy` builds ./cinnabar first.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v nginx >/dev/null; then
  if [ -n "${CI:-}" ]; then
    echo "nginx is not installed" >&2
    exit 1
  fi
  echo "nginx is not installed: skipped"
  exit 0
fi
# shellcheck source=.ci/lib.sh
. .ci/lib.sh

start_hub --anonymous --trusted-proxy 127.0.0.1/32 --heartbeat 1s
port=$(free_port)
sed -e "s/server hub:3000;/server 127.0.0.1:$hub_port;/" -e "s/listen 8080;/listen 127.0.0.1:$port;/" docker/nginx.conf >"$scratch/hub.conf"
# As root nginx would hand its workers to another user, who cannot write here.
user=
[ "$(id -u)" -ne 0 ] || user='user root;'
cat >"$scratch/nginx.conf" <<END
$user
daemon off;
pid $scratch/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path $scratch/body;
  proxy_temp_path $scratch/proxy;
  fastcgi_temp_path $scratch/fastcgi;
  uwsgi_temp_path $scratch/uwsgi;
  scgi_temp_path $scratch/scgi;
  include $scratch/hub.conf;
}
END
nginx -t -q -c "$scratch/nginx.conf"
nginx -c "$scratch/nginx.conf" >"$scratch/nginx.log" 2>&1 &
started+=($!)
through=http://127.0.0.1:$port/.well-known/mercure

# The stream is in the background; what it must show is waited for, not slept for.
expect() { # WHAT COMMAND…
  local what=$1 i
  shift
  for ((i = 0; i < 100; i++)); do
    if "$@" >/dev/null 2>&1; then
      echo "ok: $what"
      return
    fi
    sleep 0.1
  done
  echo "missing after 10 s: $what" >&2
  return 1
}

curl -sSN --retry 20 --retry-connrefused --retry-delay 1 -D "$scratch/head.txt" -o "$scratch/stream.txt" "$through?topic=proxied" &
started+=($!)
expect 'the head and the first lines pass at once' grep -E '^retry: [0-9]+$' "$scratch/stream.txt"
expect 'the media type passes' grep -i '^Content-Type: text/event-stream' "$scratch/head.txt"

token=$(./cinnabar token mint --key "$HUB_KEY" --publish '*')
id=$(curl -fsS -H "Authorization: Bearer $token" -d topic=proxied -d data=one "$through")
expect 'an update arrives unbuffered' grep -Fx "id: $id" "$scratch/stream.txt"
head -c 900000 /dev/zero | tr '\0' x >"$scratch/large"
curl -fsS -o /dev/null -H "Authorization: Bearer $token" -d topic=proxied --data-urlencode "data@$scratch/large" "$through"
expect 'a large update passes whole' awk 'length == 900006 {found = 1} END {exit !found}' "$scratch/stream.txt"
expect 'heartbeats pass' awk '/^:$/ {n++} END {exit n < 2}' "$scratch/stream.txt"
resumed=$(curl -sSN --max-time 1 -H "Last-Event-ID: $id" -D - -o /dev/null "$through?topic=proxied" || true)
grep -qi "^Last-Event-ID: $id" <<<"$resumed"
echo "ok: the cursor and its answer pass"
