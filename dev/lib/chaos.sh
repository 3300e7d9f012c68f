# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034 # other files set and use these
# The acts of dev/chaos.

NAMESPACE=chaos
GROUP=postgres
MEMBERS=3
VIOLATIONS=()
WITNESS=''
# Keeps the operator and the clients; nothing happens to it.
QUIET=node4
# What happens to the primary, in turn: its server is killed; its container is, from the node; its pod is deleted, with grace and without; it hands
# over; its node loses its power and a person says so; the same, and nobody says so; its node's link is cut.
KINDS=(process container pod pod-forced hand-over node node-back partition)
# How long nobody may take over while nobody knows of the old primary.
HOLD=20

kube() { "$root/dev/cluster" kubectl -n "$NAMESPACE" "$@"; }
everywhere() { "$root/dev/cluster" kubectl "$@"; }
now() { echo "${EPOCHREALTIME:0:10}${EPOCHREALTIME:11:3}"; }
fail() {
  echo "dev/chaos: $*; the cluster is left to be looked at" >&2
  kube get rg,pods -o wide >&2 || true
  explain >&2 || true
  exit 1
}
explain() { everywhere exec -n tanist-system deployment/tanist -- /bin/tanist explain "$GROUP" --namespace "$NAMESPACE"; }
waiting() { kube get rg "$GROUP" -o jsonpath='{range .status.waiting[*]}{.reason}: {.message}{"\n"}{end}'; }
primary() { kube get rg "$GROUP" -o jsonpath='{.status.primary}'; }
pod() { kube get pod "$1" -o jsonpath="{$2}"; } # NAME PATH
sql() { kube exec "$1" -c postgres -- psql -X -w -q -A -t -h /run/postgresql -U postgres -d postgres -c "$2"; }
ready() { # SECONDS
  kube wait --for=condition=Ready "rg/$GROUP" --timeout="$1s" >/dev/null 2>&1
}
# Repeats a condition until it holds or the time is over.
within() { # SECONDS COMMAND...
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < until)) || return 1
    sleep 0.5
  done
}

install() { # IMAGES
  local nodes; nodes=$(everywhere get nodes --no-headers | awk '$2 == "Ready"' | wc -l)
  ((nodes == 4)) || { echo "dev/chaos: four nodes are needed, $nodes are Ready: CLUSTER=$CLUSTER NODES=4 dev/cluster up" >&2; exit 1; }
  "$root/dev/cluster" load "$1/tanist.tar" "$1/postgres.tar" >/dev/null
  everywhere taint nodes --all node.kubernetes.io/out-of-service- >/dev/null 2>&1 || true
  everywhere apply --server-side -k deploy/crd >/dev/null
  everywhere delete namespace "$NAMESPACE" --ignore-not-found --wait=true >/dev/null
  everywhere create namespace "$NAMESPACE" >/dev/null
  everywhere apply --server-side --force-conflicts -k deploy/operator >/dev/null
  everywhere apply --server-side --force-conflicts -k deploy/rbac/nodes >/dev/null
  kube apply --server-side --force-conflicts -k deploy/rbac/namespace >/dev/null
  everywhere set env -n tanist-system deployment/tanist "WATCH_NAMESPACES=$NAMESPACE" >/dev/null
  everywhere patch -n tanist-system deployment/tanist --type merge \
    -p "{\"spec\":{\"template\":{\"spec\":{\"nodeSelector\":{\"kubernetes.io/hostname\":\"$QUIET\"}}}}}" >/dev/null
  everywhere rollout restart -n tanist-system deployment/tanist >/dev/null
  everywhere rollout status -n tanist-system deployment/tanist --timeout=120s | tail -n 1
}

# The example, each member on a node of its own: its volume stays there, as a node's disk does, so it never comes back elsewhere.
form() {
  mkdir -p "$work/group.d"
  cp examples/postgres/postgres.yaml "$work/group.d/"
  cat >"$work/group.d/kustomization.yaml" <<EOF_KUSTOMIZATION
resources: [postgres.yaml]
patches:
  - target: {kind: ReplicaGroup, name: $GROUP}
    patch: |-
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
      - op: add
        path: /spec/volumeClaimTemplates/0/spec/storageClassName
        value: node-local
EOF_KUSTOMIZATION
  kube apply -k "$work/group.d" >/dev/null
  ready 300 || fail "the group was not ready within 300 s"
  sql "$(primary)" 'CREATE TABLE chaos (client text, id bigint, PRIMARY KEY (client, id))'
}

clients() {
  kube create configmap client --from-file=dev/lib/chaos-client.sh >/dev/null
  kube apply -f - >/dev/null <<EOF_POD
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: Never
  nodeSelector: {kubernetes.io/hostname: $QUIET}
  securityContext: {runAsNonRoot: true, runAsUser: 999, runAsGroup: 999, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: client
      image: tanist.local/postgres:1
      imagePullPolicy: IfNotPresent
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      env:
        - {name: PGPASSWORD, valueFrom: {secretKeyRef: {name: postgres, key: superuser}}}
      command: [bash, /client/chaos-client.sh, $GROUP, "$MEMBERS"]
      volumeMounts: [{name: client, mountPath: /client}]
  volumes: [{name: client, configMap: {name: client}}]
EOF_POD
  kube wait --for=condition=Ready pod/client --timeout=60s >/dev/null
  watch_all
  within 30 writes_go_on "$(now)" || fail "the clients' writes are not acknowledged"
}

# Ten rows were acknowledged through -rw in the last seconds, all begun after that moment; by that member, where one is named.
writes_go_on() { # SINCE [MEMBER]
  local from=$(($(now) - 2000))
  (($1 < from)) || from=$1
  [[ $(tail -n 500 "$(journal)" | awk -v t="$from" -v m="${2:-}" '$3 == "rw" && $4 == "ack" && $1 > t && (m == "" || $6 == m)' | wc -l) -ge 10 ]]
}

# The last of the others: of equal data the policy takes the first, so each member leads at some time.
heir() { # PRIMARY
  kube get rg "$GROUP" -o jsonpath='{range .status.members[?(@.role=="secondary")]}{.name}{"\n"}{end}' | grep -v "^$1$" | tail -n 1
}

containers_of() { # NODE ARGUMENTS...
  local node=$1
  shift
  "$root/dev/cluster" enter "$node" ctr --address "/run/tanist/$CLUSTER/$node.sock" --namespace k8s.io "$@"
}
# An execution takes its time: the moment is the one in the container.
kill_server() { # MEMBER
  # shellcheck disable=SC2016 # the container's shell
  kube exec "$1" -c postgres -- bash -c '
    pid=$(head -n 1 /var/lib/postgresql/data/postmaster.pid); echo "${EPOCHREALTIME:0:10}${EPOCHREALTIME:11:3}"; kill -9 "$pid"'
}

# Takes the primary away and sets `loss`, the moment of it.
lose() { # KIND MEMBER NODE CONTAINER
  loss=$(now)
  case $1 in
    process) loss=$(kill_server "$2") ;;
    container) containers_of "$3" tasks kill --signal SIGKILL "${4#*://}" ;;
    pod) kube delete pod "$2" --wait=false >/dev/null ;;
    pod-forced) kube delete pod "$2" --grace-period=0 --force --wait=false >/dev/null 2>&1 ;;
    hand-over) kube patch rg "$GROUP" --type merge -p "{\"spec\":{\"preferredPrimary\":\"$(heir "$2")\"}}" >/dev/null ;;
    node | node-back) "$root/dev/cluster" node-kill "$3" ;;
    partition) "$root/dev/cluster" partition "$3" ;;
    *) fail "no such loss: $1" ;;
  esac
}

# What a person does about it, or the world; sets `told`, the moment of it.
mend() { # KIND NODE
  told=$(now)
  case $1 in
    node) everywhere taint node "$2" node.kubernetes.io/out-of-service=nodeshutdown:NoExecute >/dev/null ;;
    node-back) "$root/dev/cluster" node-start "$2" ;;
    partition) "$root/dev/cluster" heal "$2" ;;
  esac
}

says_why() { [[ -z $(primary) && $(waiting) == *MayBePrimary:* ]]; }

# Nobody leads, nobody takes over, and the group says why: sets `why`.
held() { # KIND FROM
  within 60 says_why || fail "round $round ($1): the group does not say why nobody takes over"
  sleep "$HOLD"
  says_why || fail "round $round ($1): nothing was known of the old primary, and the group does not wait any more"
  [[ $(explain) == *MayBePrimary* ]] || fail "round $round ($1): tanist explain does not say why nobody takes over"
  why=$(waiting | sed -n 's/^MayBePrimary: //p' | sed -n 1p)
  violations others_acknowledged "$(journal)" "$loss" "$2"
  [[ $(commands "$loss" | jq '[.[] | select(.verb == "failover" or .verb == "seed")] | length') == 0 ]] ||
    fail "round $round ($1): somebody was told to take over while the old primary may live"
}

# Runs a check, tells and counts what it finds.
violations() { # CHECK ARGUMENTS...
  local found; found=$("$@")
  [[ -n $found ]] || return 0
  echo "    $1: $(wc -l <<<"$found") violations, the first: $(head -n 1 <<<"$found")"
  VIOLATIONS+=("round $round: $1: $(wc -l <<<"$found"): $(head -n 1 <<<"$found")")
}

# Writes go on, with another primary if there has to be one.
goes_on() { # KIND FROM
  to=$(primary)
  [[ -n $to && ($to != "$2" || $1 == partition) ]] && writes_go_on "${told:-$loss}" "$to"
}

play() { # KIND
  local kind=$1 from node container loss told='' to='' why='' load
  from=$(primary)
  node=$(pod "$from" .spec.nodeName)
  container=$(pod "$from" '.status.containerStatuses[?(@.name=="postgres")].containerID')
  witness "$node" "$container"
  lose "$kind" "$from" "$node" "$container"
  case $kind in node | node-back | partition) held "$kind" "$from"; mend "$kind" "$node" ;; esac
  within 240 goes_on "$kind" "$from" || fail "round $round ($kind): writes did not come back within 240 s"
  read -r load _ </proc/loadavg
  if [[ $kind == node ]]; then
    "$root/dev/cluster" node-start "$node" >/dev/null
    everywhere taint node "$node" node.kubernetes.io/out-of-service- >/dev/null
  fi
  ready 300 || fail "round $round ($kind): the group was not ready within 300 s"
  to=$(primary)
  journal >/dev/null
  labels
  has_everything "$to"
  dismiss
  steps "$loss" "$from" "$container" "$to" >"$work/steps"
  row "$kind" "$from" "$to"
  violations too_soon "$work/steps"
  [[ $kind != pod-forced ]] || violations unproven "$work/steps" $((80 + 30))
  awk -v t="$loss" '$2 >= t' "$work/journal" >"$work/journal.round"
  violations two_writable "$work/journal.round"
  violations wrong_rw "$work/journal.round"
  violations wrong_ro "$work/journal.round" "$work/pods.labels"
  [[ $kind != hand-over ]] || take_back
}

# The wish for a primary, so that the next loss is not followed by a second hand-over.
take_back() {
  kube patch rg "$GROUP" --type merge -p '{"spec":{"preferredPrimary":null}}' >/dev/null
  sleep 2
  ready 60 || fail "the group was not ready after the wish for a primary was taken back"
}

# All rows of the journal are on that member, which sets `lost`. The journal was read before: what was acknowledged later need not be there.
has_everything() { # MEMBER
  sql "$1" "SELECT client || '|' || id FROM chaos" >"$work/rows"
  lost=$(missing "$work/journal" "$work/rows" | wc -l)
  ((lost == 0)) || VIOLATIONS+=("round $round: $lost acknowledged rows are not on $1, one is $(missing "$work/journal" "$work/rows" | sed -n 1p)")
}

# Once more over everything, then the rows on every member.
at_the_end() {
  local member
  round=end
  whole_journal >/dev/null
  labels
  violations two_writable "$work/journal"
  violations wrong_rw "$work/journal"
  violations wrong_ro "$work/journal" "$work/pods.labels"
  sleep 2
  for ((member = 0; member < MEMBERS; member++)); do has_everything "$GROUP-$member"; done
}
