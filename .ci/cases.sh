#!/usr/bin/env bash
# The conformance suite and black-box cases drawn from public bug reports, against the real program: .ci/cases.sh FOLDER
# FOLDER is a Go module whose tests read HUB_URL and HUB_KEY. `make cases CASES=FOLDER` builds ./cinnabar first.
set -euo pipefail
cd "$(dirname "$0")/.."
cases=$(cd "${1:?the folder of the cases}" && pwd)
# shellcheck source=.ci/lib.sh
. .ci/lib.sh

issuer=https://issuer.example
HUB_ISSUER_KEY=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
CINNABAR_ISSUER_JWT_KEY=$HUB_ISSUER_KEY start_hub --anonymous --subscriptions --issuer "$issuer" --resource-identifier https://hub.example/hub
CINNABAR_KEY=$HUB_KEY CINNABAR_ISSUER_KEY=$HUB_ISSUER_KEY ./cinnabar conformance "$HUB_URL" --generation both \
  --issuer "$issuer" --audience https://hub.example/hub --anonymous --subscriptions
(cd "$cases" && go test -count=1 -v ./...) | tee "$scratch/cases.out" | grep -vE '^=== (RUN|PAUSE|CONT)'

ran=$(grep -cE '^--- PASS: TestC[0-9]+' "$scratch/cases.out" || true)
skipped=$(grep -cE '^ *--- SKIP' "$scratch/cases.out" || true)
echo "$ran cases passed, $skipped skipped"
# A case that skips itself has not passed, and neither has a folder without cases.
[ "$ran" -gt 0 ] && [ "$skipped" -eq 0 ]
