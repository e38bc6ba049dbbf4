#!/usr/bin/env bash
# Streams through nginx with docker/nginx.conf as it is, but for the addresses. `make proxy` builds ./cinnabar first.
set -euo pipefail
cd "$(dirname "$0")/.."
for needed in nginx node; do
  if command -v "$needed" >/dev/null; then continue; fi
  if [ -n "${CI:-}" ]; then
    echo "$needed is not installed" >&2
    exit 1
  fi
  echo "$needed is not installed: skipped"
  exit 0
done
# shellcheck source=.ci/lib.sh
. .ci/lib.sh

# proxy HOST:PORT…: nginx in front of these; sets through, the hub's URL behind it. Ends the nginx before.
nginx_pid=
proxy() {
  local line servers='' port user=
  if [ -n "$nginx_pid" ]; then
    kill "$nginx_pid"
    wait "$nginx_pid" || true
  fi
  port=$(free_port)
  for line in "$@"; do servers+="    server $line\\1\\n"; done
  sed -E -e "s/^ +server hub:3000(.*)$/$servers/" -e "s/listen 8080;/listen 127.0.0.1:$port;/" docker/nginx.conf >"$scratch/hub.conf"
  for line in "$@"; do grep -q "server $line " "$scratch/hub.conf"; done
  # As root nginx would hand its workers to another user, who cannot write here.
  [ "$(id -u)" -ne 0 ] || user='user root;'
  cat >"$scratch/nginx.conf" <<CONF
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
CONF
  nginx -t -q -c "$scratch/nginx.conf"
  nginx -c "$scratch/nginx.conf" >>"$scratch/nginx.log" 2>&1 &
  nginx_pid=$!
  started+=("$nginx_pid")
  through=http://127.0.0.1:$port/.well-known/mercure
  expect 'nginx listens' curl -sS -o /dev/null "http://127.0.0.1:$port/"
}

# What runs in the background is waited for, not slept for.
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

# is WHAT WANTED GOT: WANTED is an extended regular expression for some line of GOT.
is() {
  if ! grep -qiE -- "$2" <<<"$3"; then
    printf 'missing: %s: %s\nin:\n%s\n' "$1" "$2" "$3" >&2
    return 1
  fi
  echo "ok: $1"
}

# What an EventSource of a page elsewhere is answered, head and body, or the first second of it.
event_source() {
  { curl -sN -i --max-time 1 -H 'Accept: text/event-stream' -H 'Origin: https://app.example' "$through?topic=proxied" || true; } | tr -d '\r'
}
publish() { curl -sS --max-time 20 -o /dev/null -D - -w '%{http_code}\n' -H "Authorization: Bearer $token" -d topic=proxied -d data=one "$through" | tr -d '\r'; }

start_hub --anonymous --trusted-proxy 127.0.0.1/32 --heartbeat 1s
first=127.0.0.1:$hub_port first_pid=$hub_pid
token=$(./cinnabar token mint --key "$HUB_KEY" --publish '*')

echo '-- one hub'
proxy "$first"
curl -sSN -D "$scratch/head.txt" -o "$scratch/stream.txt" "$through?topic=proxied" &
started+=($!)
expect 'the head and the first lines pass at once' grep -E '^retry: [0-9]+$' "$scratch/stream.txt"
expect 'the media type passes' grep -i '^Content-Type: text/event-stream' "$scratch/head.txt"

id=$(curl -fsS -H "Authorization: Bearer $token" -d topic=proxied -d data=one "$through")
expect 'an update arrives unbuffered' grep -Fx "id: $id" "$scratch/stream.txt"
head -c 900000 /dev/zero | tr '\0' x >"$scratch/large"
curl -fsS -o /dev/null -H "Authorization: Bearer $token" -d topic=proxied --data-urlencode "data@$scratch/large" "$through"
expect 'a large update passes whole' awk 'length == 900006 {found = 1} END {exit !found}' "$scratch/stream.txt"
expect 'heartbeats pass' awk '/^:$/ {n++} END {exit n < 2}' "$scratch/stream.txt"
resumed=$(curl -sSN --max-time 1 -H "Last-Event-ID: $id" -D - -o /dev/null "$through?topic=proxied" || true)
is 'the cursor and its answer pass' "^Last-Event-ID: $id" "$resumed"
refused=$(curl -sS -d topic=proxied -d data=one "$through")
is 'what the hub refuses passes as it is' '^Unauthorized: .*request' "$refused"

# Each on a log of its own: what is looked at is whom nginx asks.
echo '-- two hubs, then one, then none, then one again'
start_hub --anonymous --trusted-proxy 127.0.0.1/32 --data-dir "$scratch/second"
second=127.0.0.1:$hub_port second_pid=$hub_pid
proxy "$first" "$second"
kill -KILL "$first_pid"
wait "$first_pid" 2>/dev/null || true
for ((i = 0; i < 4; i++)); do
  is 'a stream goes to the hub that is left' '^:$' "$(event_source)"
  is 'a publication goes to the hub that is left' '^200$' "$(publish)"
done
kill -KILL "$second_pid"
wait "$second_pid" 2>/dev/null || true

alone=$(event_source)
is 'no hub: an EventSource is answered 200' '^HTTP/1.1 200 ' "$alone"
is 'no hub: with an event stream' '^Content-Type: text/event-stream$' "$alone"
is 'no hub: that any page can read' '^Access-Control-Allow-Origin: https://app.example$' "$alone"
is 'no hub: with cookies too' '^Access-Control-Allow-Credentials: true$' "$alone"
is 'no hub: that says when to come back' '^retry: [2-9]000$' "$alone"
times=$(for ((i = 0; i < 20; i++)); do event_source | grep '^retry: '; done | sort -u | wc -l)
is 'no hub: not the same time for all' '^([3-9])$' "$times"
published=$(publish)
is 'no hub: a publisher is answered 503' '^HTTP/1.1 503 ' "$published"
is 'no hub: with a time to try again' '^Retry-After: [0-9]+$' "$published"
for method in '-X GET' --head '-X OPTIONS'; do
  # shellcheck disable=SC2086 # two words
  is "no hub: another client (curl $method) is answered 503" '^HTTP/1.1 503 ' "$(curl -sS $method -o /dev/null -D - "$through?topic=proxied")"
done

CINNABAR_PUBLISHER_JWT_KEY=$HUB_KEY CINNABAR_SUBSCRIBER_JWT_KEY=$HUB_KEY \
  ./cinnabar serve --anonymous --listen "$second" --admin-listen '' --data-dir "$scratch/second" >"$scratch/again.log" 2>&1 &
started+=($!)
stream_opens() { event_source | grep '^:$'; }
expect 'a hub that is back is found again' stream_opens

# Two that take every request, note it, and cut the connection: the answer is lost, not the request.
echo '-- two that break in the middle of a request'
node -e '
  const fs = require("fs"), ports = [];
  for (let i = 0; i < 2; i++) {
    const server = require("http").createServer((request, response) => {
      fs.appendFileSync(process.argv[1], request.method + "\n");
      request.resume().on("end", () => response.destroy());
    });
    server.listen(0, "127.0.0.1", () => ports.push(server.address().port) === 2 && console.log(ports.join(" ")));
  }' "$scratch/asked" >"$scratch/broken.log" 2>&1 &
started+=($!)
expect 'they listen' grep -q ' ' "$scratch/broken.log"
read -r one other <"$scratch/broken.log"
proxy "127.0.0.1:$one" "127.0.0.1:$other"
is 'a publication that broke is answered 503' '^HTTP/1.1 503 ' "$(publish)"
is 'and was sent once' '^1$' "$(grep -c POST "$scratch/asked")"
: >"$scratch/asked"
proxy "127.0.0.1:$one" "127.0.0.1:$other"
is 'a stream that broke is answered 200' '^retry: [2-9]000$' "$(event_source)"
is 'and every node was asked' '^2$' "$(grep -c GET "$scratch/asked")"
