#!/usr/bin/env bash
# Runs the commands of README.md as a reader would and compares what they print with what README.md shows.
#
# A fenced block is run when an HTML comment stands on the line before it:
#   <!-- run: serve -->    in the background, until the hub is ready; again = stop it first, keep its data
#   <!-- run: stream -->   in the background
#   <!-- run: once -->     to its end, which must be 0
#   <!-- shows: serve|stream|once -->   not run: its lines are in what that last printed, in this order; … is anything
# TOKEN is the token that serve printed. Port, admin port and data directory are replaced through the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=.ci/lib.sh
. .ci/lib.sh

port=$(free_port)
admin=$(free_port)
export CINNABAR_LISTEN=127.0.0.1:$port CINNABAR_ADMIN_LISTEN=127.0.0.1:$admin CINNABAR_DATA_DIR=$scratch/data
blocks=$scratch/blocks
mkdir -p "$blocks"
awk -v dir="$blocks" '
  /^<!-- (run|shows): .* -->$/ { kind = $2 " " $3; sub(/:/, "", kind); next }
  /^```/ && inside { inside = 0; kind = ""; close(file); next }
  /^```/ { inside = 1; if (kind != "") { n++; file = sprintf("%s/%02d %s", dir, n, kind) } next }
  inside && kind != "" { print > file }
' README.md

# A process group of its own, because go run does not hand signals on.
group() { # OUTPUT COMMAND
  setsid bash -c "$2" >"$1" 2>"${1%.log}.err.log" &
  groups+=($!)
}
groups=()
end_group() {
  kill -TERM -- "-$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
  local i
  for ((i = 0; i < 300; i++)); do # go run is gone before the hub is
    kill -0 -- "-$1" 2>/dev/null || return 0
    sleep 0.1
  done
  echo "process group $1 does not end" >&2
  return 1
}
end_groups() {
  local g
  for g in "${groups[@]}"; do end_group "$g"; done
}
trap 'status=$?; end_groups || true; finish "$status"' EXIT

# Each line of EXPECTED is found in OUTPUT, in order; blank ones are not looked for.
shows() { # EXPECTED OUTPUT
  local line pattern got
  exec 4<"$2"
  while IFS= read -r line; do
    [ -n "$line" ] || continue
    pattern=$(sed -e 's/[][\\*?]/\\&/g' -e 's/…/*/g' <<<"$line")
    while :; do
      IFS= read -r got <&4 || [ -n "$got" ] || return 1
      # shellcheck disable=SC2053 # a pattern is meant
      if [[ $got == $pattern ]]; then break; fi
    done
  done <"$1"
}

# printed waits until FILE has a line that matches PATTERN.
printed() { # FILE PATTERN
  local i
  for ((i = 0; i < 300; i++)); do
    if grep -qs -- "$2" "$1"; then return 0; fi
    sleep 0.1
  done
  echo "nothing like $2 was printed:" >&2
  cat "$1" >&2
  return 1
}

ran=0
hub=
for block in "$blocks"/*; do
  read -r _ kind what <<<"$(basename "$block")"
  text=$(sed "s/127\.0\.0\.1:3000/127.0.0.1:$port/g; s/127\.0\.0\.1:3001/127.0.0.1:$admin/g" "$block")
  if [ "$kind" = run ]; then
    echo "-- $what: $text"
    ran=$((ran + 1))
  fi
  case "$kind $what" in
    'run serve' | 'run again')
      [ -z "$hub" ] || end_group "$hub"
      group "$scratch/serve.log" "$text"
      hub=$!
      wait_for "http://127.0.0.1:$admin/readyz" "$hub"
      printed "$scratch/serve.log" 'data=Hello' # the last line of the banner
      TOKEN=$(grep -oE 'eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+' "$scratch/serve.log" | head -n 1)
      export TOKEN
      ;;
    'run stream')
      group "$scratch/stream.log" "$text"
      printed "$scratch/stream.log" '^:' # it is open: a person would not be quicker
      ;;
    'run once') timeout 60 bash -euo pipefail -c "$text" >"$scratch/once.log" 2>"$scratch/once.err.log" ;;
    'shows '*)
      printf '%s\n' "$text" >"$scratch/expected"
      for ((i = 0; ; i++)); do # what a stream shows may still be on its way
        if shows "$scratch/expected" "$scratch/$what.log"; then break; fi
        if [ "$i" -ge 50 ]; then
          echo "README.md shows:" >&2
          cat "$scratch/expected" >&2
          echo "it printed:" >&2
          cat "$scratch/$what.log" >&2
          exit 1
        fi
        sleep 0.1
      done
      ;;
    *)
      echo "README.md: unknown mark '$kind: $what'" >&2
      exit 1
      ;;
  esac
done
if [ "$ran" -lt 4 ]; then
  echo "README.md: only $ran commands are marked to be run" >&2
  exit 1
fi
for command in 'go run ./cmd/cinnabar serve --dev' 'go test ./...'; do
  grep -qxF "$command" README.md || { echo "README.md lost its command: $command" >&2; exit 1; }
done
echo "$ran commands of README.md run"
