#!/usr/bin/env bash
# Runs every fuzz target of the module for a while: .ci/fuzz.sh 20s
set -euo pipefail
cd "$(dirname "$0")/.."
fuzztime=${1:-20s}

targets=0
while IFS=: read -r file name; do
  echo "== $name ($(dirname "$file"), $fuzztime)"
  go test -run '^$' -fuzz "^$name\$" -fuzztime "$fuzztime" "./$(dirname "$file")"
  targets=$((targets + 1))
done < <(git ls-files -z '*_test.go' | xargs -0 grep -oE '^func Fuzz[A-Za-z0-9_]*' /dev/null | sed 's/:func /:/')

if [ "$targets" -eq 0 ]; then
  echo "no fuzz target found" >&2
  exit 1
fi
echo "$targets fuzz targets"
