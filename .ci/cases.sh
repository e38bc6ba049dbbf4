#!/usr/bin/env bash
# The conformance suite and black-box cases drawn from public bug reports, against the real program: .ci/cases.sh FOLDER
# FOLDER is a Go module whose tests read HUB_URL and HUB_KEY. `make cases CASES=FOLDER` builds ./cinnabar first.
set -euo pipefail
cd "$(dirname "$0")/.."
cases=$(cd "${1:?the folder of the cases}" && pwd)
# shellcheck source=.ci/lib.sh
. .ci/lib.sh

start_hub --anonymous --subscriptions
CINNABAR_KEY=$HUB_KEY ./cinnabar conformance "$HUB_URL" --anonymous --subscriptions
(cd "$cases" && go test -count=1 -v ./...) | tee "$scratch/cases.out" | grep -vE '^=== (RUN|PAUSE|CONT)'

ran=$(grep -cE '^--- PASS: TestC[0-9]+' "$scratch/cases.out" || true)
skipped=$(grep -cE '^ *--- SKIP' "$scratch/cases.out" || true)
echo "$ran cases passed, $skipped skipped"
# A case that skips itself has not passed, and neither has a folder without cases.
[ "$ran" -gt 0 ] && [ "$skipped" -eq 0 ]
