#!/usr/bin/env bash
# Runs a Compose file of docker/ where there is no container engine: .ci/compose.sh docker/compose.cluster.yaml
# Each service gets what an engine would give it: a network namespace with its address, the names of the others, its
# environment, command, files, secrets and volumes; hubs and NATS servers a root of their own as well, and hubs their user.
# Then: is every node ready, does each hear what any other was told, also while one is missing?
# Needs root; `make compose` builds ./cinnabar first.
set -euo pipefail
cd "$(dirname "$0")/.."
file=${1:?a Compose file}
if [ "$(id -u)" -ne 0 ] || ! command -v ip >/dev/null || ! command -v nginx >/dev/null || ! command -v openssl >/dev/null; then
  echo "$file: needs root, iproute2, nginx and openssl"
  [ -z "${CI:-}" ] || exit 1
  exit 0
fi
# shellcheck source=.ci/lib.sh
. .ci/lib.sh

net=cinnabar$$
namespaces=()
leave() {
  local status=$? n
  (finish "$status") || true
  for n in "${namespaces[@]}"; do ip netns del "$n" || true; done
  exit "$status"
}
trap leave EXIT

netns() {
  ip netns add "$net-$1"
  namespaces+=("$net-$1")
  ip -n "$net-$1" link set lo up
}
# plug NAMESPACE ADDRESS/BITS: a cable from the switch.
cables=0
plug() {
  cables=$((cables + 1))
  ip link add "eth0" netns "$net-$1" type veth peer name "port$cables" netns "$net-switch"
  ip -n "$net-switch" link set "port$cables" master bridge up
  ip -n "$net-$1" addr add "$2" dev eth0
  ip -n "$net-$1" link set eth0 up
}

# In a copy, with secrets made as the comment of the file says.
cp -r docker "$scratch/docker"
rm -rf "$scratch/docker/secrets"
recipe=$(sed -n 's/^#   //p' "$file" | grep -v 'docker compose')
cd "$scratch"
eval "$recipe"
cd - >/dev/null
(cd .ci/manifests && go run . compose "$scratch/$file" "$scratch")
services=$scratch/services
nats=$(grep -l '^nats:' "$services"/*/image | head -n 1 || true)
[ -z "$nats" ] || CGO_ENABLED=0 go build -o "$scratch/nats-server" github.com/nats-io/nats-server/v2

netns switch
ip -n "$net-switch" link add bridge type bridge
ip -n "$net-switch" link set bridge up
netns outside
for dir in "$services"/*; do
  netns "$(basename "$dir")"
  plug "$(basename "$dir")" "$(cat "$dir/ip")"
done
subnet=$(cut -d. -f1-3 "$services/nginx/ip")
plug outside "$subnet.250/24"

# start SERVICE: sets pid.
start() {
  local dir=$services/$1 root=$services/$1/root source target env command
  mapfile -t env <"$dir/env"
  mapfile -t command <"$dir/command"

  install -D -m 644 "$dir/hosts" "$root/etc/hosts"
  while read -r source target; do install -D -m 644 "$source" "$root$target"; done < <(cat "$dir/mounts" 2>/dev/null)
  while read -r source target; do install -D -m 644 "$source" "$root/run/secrets/$target"; done < <(cat "$dir/secrets" 2>/dev/null)
  local in=(ip netns exec "$net-$1" env -i "${env[@]}")
  case $(cat "$dir/image") in
    cinnabar)
      install -m 755 ./cinnabar "$root/cinnabar"
      install -d -o 65532 -g 65532 "$root/data"
      in+=(CINNABAR_DATA_DIR=/data "$(command -v chroot)" --userspec=65532:65532 "$root" /cinnabar "${command[@]:-serve}")
      ;;
    nats:*)
      install -m 755 "$scratch/nats-server" "$root/nats-server"
      mkdir -p "$root/data"
      in+=("$(command -v chroot)" "$root" /nats-server "${command[@]}")
      ;;
    nginx:*) # it has libraries, so it stays in this root, with its files laid over
      in+=(PATH="$PATH" unshare --mount bash -euc '
        mount --bind "$0/etc/hosts" /etc/hosts
        mount -t tmpfs none /var/lib/nginx
        mount --bind "$0/etc/nginx" /etc/nginx
        exec nginx -e /dev/stderr -g "daemon off;"' "$root")
      mkdir -p "$root/etc/nginx/conf.d"
      sed -i "s#/tmp/nginx.pid#$scratch/nginx.pid#" "$root/etc/nginx/nginx.conf"
      ;;
    *)
      echo "$1: unknown image $(cat "$dir/image")" >&2
      return 1
      ;;
  esac
  "${in[@]}" >>"$scratch/$1.log" 2>&1 &
  pid=$!
  started+=("$pid")
  pids[$1]=$pid
}
stop() { # SIGNAL SERVICE
  kill "-$1" "${pids[$2]}"
  wait "${pids[$2]}" || [ "$1" = KILL ]
}
declare -A pids
outside() { ip netns exec "$net-outside" "$@"; }
address() { cut -d/ -f1 "$services/$1/ip"; }
ready() { # HUB
  local i
  for ((i = 0; i < 600; i++)); do
    if outside curl -fsS -o /dev/null --max-time 3 "http://$(address "$1"):3001/readyz" 2>/dev/null; then
      echo "ok: $1 is ready"
      return
    fi
    kill -0 "${pids[$1]}" || break
    sleep 0.1
  done
  echo "$1 is not ready: $(outside curl -sS --max-time 3 "http://$(address "$1"):3001/readyz" 2>&1)" >&2
  return 1
}
# whole waits until every hub answers and all three copies of the log have everything, as an operator would look.
whole() {
  local until=$((SECONDS + 60)) state
  while [ "$SECONDS" -lt "$until" ]; do
    state=$(outside ./cinnabar cluster status --json --admin "http://$(address "${hubs[0]}"):3001" 2>&1) || true
    if [ "$(grep -c '"answers": true' <<<"$state")" -eq ${#hubs[@]} ] && [ "$(grep -c '"current": true' <<<"$state")" -eq 3 ]; then
      echo 'ok: cluster status shows every hub, and three copies of the log that have everything'
      return
    fi
    sleep 0.1
  done
  outside ./cinnabar cluster status --admin "http://$(address "${hubs[0]}"):3001" >&2
  return 1
}
has() { # FILE LINE
  local i
  for ((i = 0; i < 300; i++)); do
    if grep -qxF -- "$2" "$1" 2>/dev/null; then return 0; fi
    sleep 0.1
  done
  echo "$(basename "$1") did not get: $2" >&2
  return 1
}

all=() hubs=()
for dir in "$services"/*; do
  name=$(basename "$dir")
  all+=("$name")
  if [ "$(cat "$dir/image")" = cinnabar ]; then hubs+=("$name"); fi
done
for name in "${all[@]}"; do start "$name"; done # nginx among the first, whatever is up already
for name in "${hubs[@]}"; do ready "$name"; done

HUB_KEY=$(cat "$scratch/docker/secrets/hub-key" 2>/dev/null || echo "${HUB_JWT_KEY:-}")
token=$(./cinnabar token mint --key "$HUB_KEY" --publish '*')
through=http://$(address nginx):8080/.well-known/mercure
publish() { # URL DATA
  outside curl -fsS --max-time 30 --retry 3 --retry-all-errors -o /dev/null -H "Authorization: Bearer $token" -d topic=t -d "data=$2" "$1"
}
listen() { # NAME URL
  outside curl -sSN -o "$scratch/$1.stream" "$2?topic=t&last_event_id=earliest" &
  started+=($!)
  has "$scratch/$1.stream" ':'
}
for hub in "${hubs[@]}"; do listen "$hub" "http://$(address "$hub"):3000/.well-known/mercure"; done
listen nginx "$through"
for from in "${hubs[@]}"; do publish "http://$(address "$from"):3000/.well-known/mercure" "from-$from"; done
publish "$through" from-outside
for to in "${hubs[@]}" nginx; do
  for from in "${hubs[@]}" outside; do has "$scratch/$to.stream" "data: from-$from"; done
  echo "ok: the subscriber at $to has what was published on every node"
done

if [ ${#hubs[@]} -gt 1 ]; then
  # Without the first service that keeps the log: a NATS server where there are some, else a hub.
  missing=${hubs[0]}
  if [ -n "$nats" ]; then missing=$(basename "$(dirname "$nats")"); fi
  stop KILL "$missing"
  publish "$through" without-one
  has "$scratch/${hubs[1]}.stream" 'data: without-one'
  echo "ok: $missing was killed, and an update passes"
  # A hub comes back with an empty disk, a NATS server with its own.
  [ -n "$nats" ] || rm -rf "$services/$missing/root/data"
  start "$missing"
  for name in "${hubs[@]}"; do ready "$name"; done
  whole
  listen again "http://$(address "${hubs[0]}"):3000/.well-known/mercure"
  has "$scratch/again.stream" 'data: without-one'
  echo "ok: $missing is back, and ${hubs[0]} has what was published meanwhile"
fi

if grep -i 'permissions violation' "$scratch"/*.log; then
  echo 'a hub needs what docker/nats.conf does not permit' >&2
  exit 1
fi
for name in "${hubs[@]}"; do kill -TERM "${pids[$name]}"; done
for name in "${hubs[@]}"; do
  if ! wait "${pids[$name]}"; then
    echo "$name did not end well" >&2
    exit 1
  fi
done
echo "ok: every hub ends with 0"
