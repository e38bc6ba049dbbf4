#!/usr/bin/env bash
# Runs every fuzz target of the module for a while: .ci/fuzz.sh 20s, or for a number of inputs: .ci/fuzz.sh 10000x
set -euo pipefail
cd "$(dirname "$0")/.."
fuzztime=${1:-20s}

out=$(mktemp)
trap 'rm -f "$out"' EXIT

targets=0
while IFS=: read -r file name; do
  echo "== $name ($(dirname "$file"), $fuzztime)"
  if ! go test -run '^$' -fuzz "^$name\$" -fuzztime "$fuzztime" "./$(dirname "$file")" 2>&1 | tee "$out"; then
    # The tool sometimes takes its own end of time for a failure; a real one names the input it wrote.
    if grep -q 'Failing input written' "$out" || ! grep -qx ' *context deadline exceeded' "$out"; then
      exit 1
    fi
    echo "   (the time was over, no input failed)"
  fi
  targets=$((targets + 1))
done < <(git ls-files -z '*_test.go' | xargs -0 grep -oE '^func Fuzz[A-Za-z0-9_]*' /dev/null | sed 's/:func /:/')

if [ "$targets" -eq 0 ]; then
  echo "no fuzz target found" >&2
  exit 1
fi
echo "$targets fuzz targets"
