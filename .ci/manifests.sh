#!/usr/bin/env bash
# Checks what docker/ ships, as far as that goes without a container engine and a Kubernetes: .ci/manifests.sh
# Compose files against the schema, Kubernetes objects against the types of the API, both for what belongs together; and
# every hub in them is asked whether it takes its settings. `make manifests` builds ./cinnabar first.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd .ci/manifests && go vet ./... && go build -o "$scratch/manifests" .)
manifests=$scratch/manifests

# What the comments of the Compose files tell to set.
export HUB_JWT_KEY=0123456789abcdef0123456789abcdef NATS_HUB_PASSWORD=secret NATS_ROUTE_PASSWORD=secret

"$manifests" kubernetes docker/kubernetes/cinnabar.yaml
echo 'ok: docker/kubernetes/cinnabar.yaml fits together'
"$manifests" settings ./cinnabar docker/compose*.yaml docker/kubernetes/cinnabar.yaml

# The checks can fail: a name that no hub knows, a field that the API does not have, a list of nodes that is too short.
refused() { # WHAT SED FILE COMMAND…
  local what=$1 edit=$2 file=$3
  shift 3
  sed "$edit" "$file" >"$scratch/edited.yaml"
  if cmp -s "$file" "$scratch/edited.yaml"; then
    echo "$file: the edit for \"$what\" changes nothing" >&2
    exit 1
  fi
  if "$@" "$scratch/edited.yaml" >/dev/null 2>&1; then
    echo "not refused: $what" >&2
    exit 1
  fi
  echo "ok: refused is $what"
}
refused 'a variable that is none' 's/CINNABAR_NODE_NAME/CINNABAR_NODE_NOM/' docker/compose.cluster.yaml "$manifests" settings ./cinnabar
refused 'a value that is none' 's/CINNABAR_ANONYMOUS: "true"/CINNABAR_ANONYMOUS: "perhaps"/' docker/compose.nats.yaml "$manifests" settings ./cinnabar
refused 'a setting without its other half' '/CINNABAR_NATS_PASSWORD/d' docker/compose.nats.yaml "$manifests" settings ./cinnabar
refused 'a key that Compose does not have' 's/stop_grace_period/stop_grace/' docker/compose.yaml "$manifests" settings ./cinnabar
refused 'a variable that is none, in Kubernetes' 's/CINNABAR_CLUSTER_LISTEN/CINNABAR_CLUSTER_LISTENS/' docker/kubernetes/cinnabar.yaml "$manifests" settings ./cinnabar
refused 'a field that Kubernetes does not have' 's/topologyKey/topologicalKey/' docker/kubernetes/cinnabar.yaml "$manifests" kubernetes
refused 'a node without its peer' 's/,cinnabar-2.cinnabar-nodes:6222//' docker/kubernetes/cinnabar.yaml "$manifests" kubernetes
refused 'a liveness that depends on the cluster' '0,/livez/! s/livez/readyz/' docker/kubernetes/cinnabar.yaml "$manifests" kubernetes
refused 'less time to stop than a hub may take' 's/GracePeriodSeconds: 60/GracePeriodSeconds: 30/' docker/kubernetes/cinnabar.yaml "$manifests" kubernetes
