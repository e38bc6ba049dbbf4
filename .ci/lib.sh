# Shared by the scripts of this folder: a hub of our own, started on free ports and ended by its PID.
# shellcheck shell=bash

free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
}

started=()
scratch=$(mktemp -d)

# Ends what was started here, by PID, last first, and waits for it.
finish() {
  local status=${1:-$?} i
  trap - EXIT INT TERM
  for ((i = ${#started[@]} - 1; i >= 0; i--)); do
    kill "${started[i]}" 2>/dev/null || true
    wait "${started[i]}" 2>/dev/null || true
  done
  if [ "$status" -ne 0 ]; then
    for log in "$scratch"/*.log; do
      [ -f "$log" ] || continue
      echo "--- the last lines of $(basename "$log")" >&2
      tail -n 40 "$log" >&2
    done
  fi
  rm -rf "$scratch"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# start_hub [flag…]: serves on a free port with HUB_KEY for both roles; sets hub_port, hub_pid and HUB_URL, and returns
# once it is ready. A further hub needs a --data-dir of its own.
start_hub() {
  local admin
  hub_port=$(free_port)
  admin=$(free_port)
  HUB_KEY=${HUB_KEY:-$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')}
  HUB_URL=http://127.0.0.1:$hub_port/.well-known/mercure
  export HUB_KEY HUB_URL
  CINNABAR_PUBLISHER_JWT_KEY=$HUB_KEY CINNABAR_SUBSCRIBER_JWT_KEY=$HUB_KEY \
    ./cinnabar serve --listen "127.0.0.1:$hub_port" --admin-listen "127.0.0.1:$admin" \
    --data-dir "$scratch/data" "$@" >"$scratch/hub-$hub_port.log" 2>&1 &
  hub_pid=$!
  started+=("$hub_pid")
  wait_for "http://127.0.0.1:$admin/readyz" "$hub_pid"
}

# wait_for URL PID: until URL answers 2xx, for at most 30 s, or until the process has gone.
wait_for() {
  local i
  for ((i = 0; i < 300; i++)); do
    if curl -fsS -o /dev/null --max-time 2 "$1" 2>/dev/null; then
      return
    fi
    if ! kill -0 "$2" 2>/dev/null; then
      echo "it ended before it was ready" >&2
      return 1
    fi
    sleep 0.1
  done
  echo "$1 did not answer within 30 s" >&2
  return 1
}
