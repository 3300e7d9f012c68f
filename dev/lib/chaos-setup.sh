# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034 # other files set and use these
# What dev/chaos sets up: the operator, a group, its clients.

NAMESPACE=chaos
GROUP=postgres
MEMBERS=${MEMBERS:-3}
# As many as deploy/default has. A single one that is killed again and again is started anew by its kubelet after 10, 20, 40, 80 s.
OPERATORS=${OPERATORS:-2}
# Runs the operator and those clients that are never cut off; nothing happens to it.
QUIET=node4

# What a group promises, by name: sets synchronous_standby_names and synchronous_commit, spec.failover, and whether acknowledged rows may be lost.
#
#   required         the example's own: a write is acknowledged when a standby has it on disk
#   remote-apply     the same, and that standby shows it to readers already
#   preferred        a write waits for a standby only while one streams, by a script: CloudNativePG's `dataDurability: preferred`
#   async            a write waits for nobody; of those who can be read, the one with most leads
#   async-freshest   the same, and a stopped old primary leads again if it can be read, for it has most
choose_setting() { # NAME
  names='ANY 1 (*)' commit=on may_lose='' prefer=''
  failover="{preferRunning: true, reads: $((MEMBERS - 1))}"
  case $1 in
    required) ;;
    remote-apply) commit=remote_apply ;;
    preferred) prefer=yes may_lose=yes ;;
    async) names='' may_lose=yes ;;
    async-freshest) names='' may_lose=yes failover='{preferRunning: false}' ;;
    *) echo "dev/chaos: no such setting: $1" >&2 && exit 2 ;;
  esac
}

install() { # IMAGES
  local nodes; nodes=$(everywhere get nodes --no-headers | awk '$2 == "Ready"' | wc -l)
  ((nodes == 4)) || { echo "dev/chaos: four nodes are needed, $nodes are Ready: CLUSTER=$CLUSTER NODES=4 dev/cluster up" >&2; exit 1; }
  "$root/dev/cluster" load "$1/tanist.tar" "$1/postgres.tar" "${more_images[@]}" >/dev/null
  everywhere taint nodes --all node.kubernetes.io/out-of-service- >/dev/null 2>&1 || true
  everywhere apply --server-side -k deploy/crd >/dev/null
  everywhere delete namespace "$NAMESPACE" --ignore-not-found --wait=true >/dev/null
  everywhere create namespace "$NAMESPACE" >/dev/null
  everywhere apply --server-side --force-conflicts -k deploy/operator >/dev/null
  everywhere apply --server-side --force-conflicts -k deploy/rbac/nodes >/dev/null
  kube apply --server-side --force-conflicts -k deploy/rbac/namespace >/dev/null
  everywhere set env -n tanist-system deployment/tanist "WATCH_NAMESPACES=$NAMESPACE" >/dev/null
  [[ -z $operator_image ]] || everywhere set image -n tanist-system deployment/tanist "tanist=$operator_image" >/dev/null
  everywhere patch -n tanist-system deployment/tanist --type merge \
    -p "{\"spec\":{\"replicas\":$OPERATORS,\"template\":{\"spec\":{\"nodeSelector\":{\"kubernetes.io/hostname\":\"$QUIET\"}}}}}" >/dev/null
  everywhere rollout restart -n tanist-system deployment/tanist >/dev/null
  everywhere rollout status -n tanist-system deployment/tanist --timeout=120s | tail -n 1
  within 60 as_many_operators || fail "operators of earlier versions do not end"
}
as_many_operators() { [[ $(everywhere get pods -n tanist-system -l tanist.dev/component=operator --no-headers | wc -l) == "$OPERATORS" ]]; }

# The example, each member on a node of its own: its volume stays there, as a node's disk does, so it never comes back elsewhere.
form() {
  mkdir -p "$work/group.d"
  cp examples/postgres/postgres.yaml "$work/group.d/"
  cat >"$work/group.d/kustomization.yaml" <<EOF_KUSTOMIZATION
resources: [postgres.yaml]
patches:
  - target: {kind: ReplicaGroup, name: $GROUP}
    patch: |-
      - {op: replace, path: /spec/replicas, value: $MEMBERS}
      - {op: replace, path: /spec/failover, value: $failover}
      - op: replace
        path: /spec/template/spec/affinity
        value:
          podAntiAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              - topologyKey: kubernetes.io/hostname
                labelSelector: {matchLabels: {tanist.dev/group: $GROUP}}
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: NotIn, values: [$QUIET]}]}]
      - {op: add, path: /spec/template/spec/containers/0/volumeMounts/-, value: {name: settings, mountPath: /etc/postgres/conf.d}}
      - {op: add, path: /spec/template/spec/volumes/-, value: {name: settings, configMap: {name: settings}}}
      - op: add
        path: /spec/volumeClaimTemplates/0/spec/storageClassName
        value: node-local
EOF_KUSTOMIZATION
  # What a script changes by ALTER SYSTEM has to win, so names stand in the file of settings only where the example's own are not meant.
  printf "synchronous_commit = %s\n" "$commit" >"$work/setting.conf"
  [[ $names == 'ANY 1 (*)' ]] || printf "synchronous_standby_names = '%s'\n" "$names" >>"$work/setting.conf"
  kube create configmap settings --from-file="$work/setting.conf" >/dev/null
  kube apply -k "$work/group.d" >/dev/null
  ready 300 || fail "the group was not ready within 300 s"
  # The first writes wait for the first standby, which is there by now.
  sql "$(primary)" 'CREATE TABLE chaos (client text, id text, PRIMARY KEY (client, id))'
  sql "$(primary)" 'CREATE TABLE registers (key text PRIMARY KEY, value text)'
  sql "$(primary)" 'CREATE TABLE lists (key text PRIMARY KEY, value text)'
}

# A root file system with psql, which every node sees, and which goes with the cluster.
unpack_tools() {
  local folder=/var/lib/tanist/$CLUSTER/volumes/.chaos-tools
  tools=/var/lib/volumes/.chaos-tools
  if [[ ! -e $folder/.complete ]]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    tar -xf "$(examples/postgres/image --rootfs)" -C "$folder" --exclude='./dev/*' --exclude='dev/*'
    touch "$folder/.complete"
  fi
  { "$root/dev/cluster" enter "$QUIET" grep '^nameserver' /run/node/resolv.conf; echo "search $NAMESPACE.svc.cluster.local"; } >"$folder/etc/resolv.conf"
}

# Clients on every node. Names are known where DNS can be reached; behind a cut link, only addresses that were known before.
clients() {
  local n node service password
  local -a quiet=("rw:rw:$GROUP-rw" "ro:ro:$GROUP-ro")
  unpack_tools
  service=$(kube get service "$GROUP-rw" -o 'jsonpath={.spec.clusterIP}')
  password=$(kube get secret postgres -o 'jsonpath={.data.superuser}' | base64 -d)
  : >"$work/journal.raw"
  : >"$work/history.told"
  for ((n = 0; n < MEMBERS; n++)); do quiet+=("direct:direct-$n:$GROUP-$n.$GROUP"); done
  client "$QUIET" "$password" "${quiet[@]}"
  for node in node1 node2 node3; do
    client "$node" "$password" "rw:rw-$node:$service" "beside:beside-$node" "look:look-$node" ${prefer:+"prefer:prefer-$node"}
  done
  watch_all
  within 30 writes_go_on "$(now)" || fail "the clients' writes are not acknowledged"
}

# The journal is the host's: what a client learned stays, whatever becomes of its node.
client() { # NODE PASSWORD CLIENT...
  local node=$1 password=$2 script
  shift 2
  script=$(<dev/lib/chaos-client.sh)
  set -m
  { while :; do
      PGPASSWORD=$password "$root/dev/cluster" enter "$node" bash -c "$script" chaos-client "$tools" "$@" >>"$work/journal.raw" || true
      sleep 1
    done; } 2>>"$work/watches.log" </dev/null &
  WATCHERS+=($!)
  set +m
}

build_history() {
  local key
  key=$(cd dev/history && cat go.mod go.sum ./*.go | sha256sum | cut -c1-16)
  history=$TANIST_CACHE/bin/history-$key
  [[ ! -x $history ]] || return 0
  mkdir -p "$TANIST_CACHE/bin"
  (cd dev/history && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$history.part" . && mv "$history.part" "$history")
}
