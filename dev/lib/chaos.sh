# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034 # other files set and use these
# The acts of dev/chaos.

VIOLATIONS=()
WITNESS=''
# What happens to the primary, in turn: its server is killed; its container is, from the node; its pod is deleted, with grace and without; a
# switchover is requested; its node loses power and an administrator declares that; the same without a declaration; its node's link is cut. After a +,
# in addition:
#   lag        one standby gets nothing from the primary for a while before, the one that would be the first among equals
#   lag-all    every standby
#   operator   the operator is killed in the middle of it: its process, or its pod by force
#   api        the API server is killed in the middle of it
#   both       both
KINDS=(process container pod pod-forced switchover node node-back partition
  process+lag container+operator pod+api switchover+operator partition+operator node+lag node-back+both
  partition+api container+lag+operator pod+lag process+both partition+lag)
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
# What the group says, for all the others: its primary, what it waits for, its members in a role.
primary() { kube get rg "$GROUP" -o jsonpath='{.status.primaries[*]}'; }
waiting() { kube get rg "$GROUP" -o jsonpath='{range .status.awaiting[*]}{.reason}: {.message}{"\n"}{end}'; }
standbys() { kube get rg "$GROUP" -o jsonpath='{range .status.members[?(@.role=="Secondary")]}{.name}{"\n"}{end}' | sort; }
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

# Ten writes were acknowledged through -rw in the last seconds, all begun after that moment; by that member, where one is named.
writes_go_on() { # SINCE [MEMBER]
  local from=$(($(now) - 3000))
  (($1 < from)) || from=$1
  [[ $(tail -n 3000 "$work/journal.raw" | awk -v t="$from" -v m="${2:-}" "$ACKNOWLEDGED"'
    $3 == "rw" && acknowledged() && $1 > t * 1000 && (m == "" || $8 == m) { n++ } END { print n + 0 }') -ge 10 ]]
}

# The last of the others: of equal data the policy takes the first, so each member leads at some time.
successor() { standbys | grep -v "^$1$" | tail -n 1; } # PRIMARY

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
  local successor
  loss=$(now)
  case $1 in
    process) loss=$(kill_server "$2") ;;
    container) containers_of "$3" tasks kill --signal SIGKILL "${4#*://}" ;;
    pod) kube delete pod "$2" --wait=false >/dev/null ;;
    pod-forced) kube delete pod "$2" --grace-period=0 --force --wait=false >/dev/null 2>&1 ;;
    switchover)
      successor=$(successor "$2")
      loss=$(now)
      kube patch rg "$GROUP" --type merge -p "{\"spec\":{\"preferredPrimary\":\"$successor\"}}" >/dev/null
      ;;
    node | node-back) "$root/dev/cluster" node-kill "$3" ;;
    partition) "$root/dev/cluster" partition "$3" ;;
    *) fail "no such loss: $1" ;;
  esac
}

# What an administrator does about it, or the world; sets `told`, the moment of it.
fix() { # KIND NODE
  told=$(now)
  case $1 in
    node) everywhere taint node "$2" node.kubernetes.io/out-of-service=nodeshutdown:NoExecute >/dev/null ;;
    node-back) "$root/dev/cluster" node-start "$2" ;;
    partition) "$root/dev/cluster" heal "$2" ;;
  esac
}

# ------------------------------------------------------- beside the loss

# Standbys get nothing from the primary any more, until that much was acknowledged without them, or it is clear that nothing is. Sets `lagging` to
# rows of NODE FROM TO NAME, which `unlag` undoes.
lag() { # HOW PRIMARY
  local name node address from since until
  lagging=()
  from=$(pod "$2" .status.podIP)
  while read -r name; do
    node=$(pod "$name" .spec.nodeName)
    address=$(pod "$name" .status.podIP)
    lagging+=("$node $from $address $name")
    link "$node" I "$from" "$address"
    [[ $1 == lag-all ]] || break
  done < <(standbys | grep -v "^$2$")
  since=$(($(now) + 500)) until=$((SECONDS + 30))
  # Who waits only while somebody streams notices the silence after wal_sender_timeout, 5 s.
  until (($(acknowledged_since "$since") >= 30 || SECONDS > until)); do sleep 0.3; done
}
link() { # NODE I|D FROM TO: cuts the two pods' link, or puts it up again
  "$root/dev/cluster" enter "$1" iptables -w "-$2" FORWARD -s "$3" -d "$4" -j DROP
  "$root/dev/cluster" enter "$1" iptables -w "-$2" FORWARD -s "$4" -d "$3" -j DROP
}
acknowledged_since() { # MOMENT
  tail -n 3000 "$work/journal.raw" | awk -v t="$1" "$ACKNOWLEDGED"'$3 == "rw" && acknowledged() && $1 > t * 1000 { n++ } END { print n + 0 }'
}
# Only after the old primary's server is gone, or cut off: they must not catch up with it.
unlag() { # KIND
  local each node from to _
  ((${#lagging[@]} > 0)) || return 0
  case $1 in process | container | pod) within 60 test -s "$work/ended" || true ;; esac
  for each in "${lagging[@]}"; do
    read -r node from to _ <<<"$each"
    link "$node" D "$from" "$to" || true
  done
}

# Whom `disturb` will kill, the one that leads, asked while everything is well: sets `operator_pod` and `operator_container`.
find_operator() {
  within 60 operator_leads || fail "no operator leads"
}
operator_leads() {
  operator_pod=$(everywhere get lease -n tanist-system tanist -o 'jsonpath={.spec.holderIdentity}' 2>/dev/null) && [[ -n $operator_pod ]] || return 1
  operator_container=$(everywhere get pod -n tanist-system "$operator_pod" -o 'jsonpath={.status.containerStatuses[0].containerID}' 2>/dev/null) &&
    [[ -n $operator_container ]]
}
# Kills the operator, the API server or both within a second; the operator's process and its pod by turns.
disturb() { # WHOM
  [[ -n $1 ]] || return 0
  sleep "0.$((RANDOM % 9 + 1))"
  if [[ $1 != api ]] && ((round % 2 == 0)); then
    everywhere delete pod -n tanist-system "$operator_pod" --grace-period=0 --force --wait=false >/dev/null 2>&1 || true
  elif [[ $1 != api ]]; then
    containers_of "$QUIET" tasks kill --signal SIGKILL "${operator_container#*://}" || true
  fi
  if [[ $1 != operator ]]; then
    now >>"$work/kills"
    "$root/dev/cluster" kill control-plane kube-apiserver
  fi
  within 60 api_answers || fail "the API server does not come back"
}
api_answers() { everywhere --request-timeout=3s get --raw /readyz >/dev/null 2>&1; }

# ----------------------------------------------------------------- rounds

says_why() { [[ -z $(primary) && $(waiting) == *MayBePrimary:* ]]; }

explains() { [[ $(explain 2>&1) == *MayBePrimary* ]]; }

# Nobody leads, nobody takes over, and the group says why: sets `why`.
held() { # FROM
  violations silent_group
  violations others_lead "$(journal)" "$loss" "$1"
  commands "$loss" >"$work/commands.held"
  violations told_to_lead "$work/commands.held"
  why=$(waiting | sed -n 's/^MayBePrimary: //p' | sed -n 1p)
}
silent_group() {
  within 60 says_why || { echo "the group does not say why nobody takes over" && return; }
  sleep "$HOLD"
  # A question that the API server did not answer says nothing of the group: it is asked again.
  within 5 says_why || echo "nothing was known of the old primary, and the group does not wait any more"
  within 20 explains || echo "tanist explain does not say why nobody takes over"
}

# Runs a check, tells and counts what it finds.
violations() { # CHECK ARGUMENTS...
  local found; found=$("$@")
  [[ -n $found ]] || return 0
  echo "    $1: $(wc -l <<<"$found") violations, the first: $(sed -n 1p <<<"$found")"
  VIOLATIONS+=("round $round: $1: $(wc -l <<<"$found"): $(sed -n 1p <<<"$found")")
}
# The same of a promise that the setting does not make: counted, not a violation.
losses() { # CHECK ARGUMENTS...
  [[ -n $may_lose ]] || { violations "$@" && return; }
  local found; found=$("$@")
  [[ -z $found ]] || echo "    $1: $(wc -l <<<"$found"), which this setting may do, the first: $(sed -n 1p <<<"$found")"
}

# Writes go on, with another primary if there has to be one.
goes_on() { # FROM
  to=$(primary)
  [[ -n $to && ($to != "$1" || -z $moves) ]] && writes_go_on "${told:-$loss}" "$to"
}
leads_elsewhere() { to=$(primary) && [[ -n $to && $to != "$1" ]]; } # FROM

play() { # KIND[+BESIDE...]
  local kind=${1%%+*} lag='' whom='' moves=yes from node container began loss='' told='' to='' why='' load
  local operator_pod='' operator_container=''
  local -a lagging=()
  case +$1+ in *+lag+*) lag=lag ;; *+lag-all+*) lag="lag-all" ;; esac
  case +$1+ in *+operator+*) whom=operator ;; *+api+*) whom=api ;; *+both+*) whom=both ;; esac
  from=$(primary)
  node=$(pod "$from" .spec.nodeName)
  container=$(pod "$from" '.status.containerStatuses[?(@.name=="postgres")].containerID')
  # With links cut the same primary leads on; and of those that wait for nobody, one that was stopped may come back.
  [[ $kind != partition && $setting != async-freshest ]] || moves=''
  began=$(now)
  witness "$node" "$container"
  [[ -z $lag ]] || lag "$lag" "$from"
  [[ -z $whom ]] || find_operator
  lose "$kind" "$from" "$node" "$container"
  disturb "$whom"
  unlag "$kind"
  case $kind in node | node-back | partition)
    held "$from"
    fix_disturbed
    ;;
  esac
  # Of two members the other one alone acknowledges nothing.
  if [[ $kind == node && $MEMBERS == 2 ]]; then
    within 240 leads_elsewhere "$from" || fail "round $round ($1): nobody led within 240 s"
    node_returns "$node"
  fi
  within 240 goes_on "$from" || fail "round $round ($1): writes did not come back within 240 s"
  read -r load _ </proc/loadavg
  [[ $kind != node || $MEMBERS == 2 ]] || node_returns "$node"
  ready 300 || fail "round $round ($1): the group was not ready within 300 s"
  to=$(primary)
  settle_round "$1"
  [[ $kind != switchover ]] || withdraw_preference
}
# Of the caller: kind, node, whom.
fix_disturbed() {
  local disturber
  [[ -z $whom ]] || find_operator
  # The return of a node takes its time, and is what has to be disturbed.
  if [[ $kind == node-back ]]; then disturb "$whom" & disturber=$!; fi
  fix "$kind" "$node"
  if [[ $kind == node-back ]]; then wait "$disturber" || exit 1; else disturb "$whom"; fi
}
node_returns() { # NODE
  "$root/dev/cluster" node-start "$1" >/dev/null
  everywhere taint node "$1" node.kubernetes.io/out-of-service- >/dev/null
}

# What came of the round: a row, and the judge's word. Of the caller: all of `play`.
settle_round() { # KIND[+BESIDE...]
  journal >/dev/null
  labels
  has_everything "$to"
  read_all "$to"
  dismiss
  steps "$loss" "$from" "$container" "$to" >"$work/steps"
  row "$1" "$from" "$to"
  violations too_soon "$work/steps"
  [[ $kind != pod-forced ]] || violations unproven "$work/steps" $((80 + 30))
  journal >/dev/null
  awk -v t="$began" '$2 >= t * 1000' "$work/journal" >"$work/journal.round"
  violations two_acknowledge "$work/journal.round"
  violations two_writable "$work/journal.round"
  losses illegal_history "$work/journal" "$work/history.told"
  violations wrong_rw "$work/journal.round" "$work/rw" "$work/nat" "$work/pods.labels" "$work/kills"
  # Labels come by a watch, which is late while the API server is away.
  [[ $whom == api || $whom == both ]] || violations wrong_ro "$work/journal.round" "$work/pods.labels"
  it_could_see
}

# The judge itself: what it cannot see it cannot judge.
it_could_see() {
  local each until=${told:-$loss} _ name
  for each in node1 node2 node3; do
    # Without power nobody looks.
    [[ $each == "$node" && $kind == node* ]] || violations unseen "$work/journal" "$began" "$(now)" "look-$each"
  done
  if [[ $kind == partition ]]; then
    violations silent_inside "$work/journal" "$loss" "$until" "beside-$node"
    violations silent_inside "$work/journal" "$loss" "$until" "rw-$node"
  fi
  for each in "${lagging[@]}"; do
    read -r _ _ _ name <<<"$each"
    violations no_difference "$work/journal" "$loss" "$from" "$name"
  done
}

# Removes the preferred primary, so that the next loss is not followed by a second switchover.
withdraw_preference() {
  kube patch rg "$GROUP" --type merge -p '{"spec":{"preferredPrimary":null}}' >/dev/null
  sleep 2
  ready 60 || fail "the group was not ready after the preferred primary was removed"
}

# All rows of the journal are on that member, which sets `lost`. The journal was read before: what was acknowledged later need not be there.
has_everything() { # MEMBER
  sql "$1" "SELECT client || '|' || id FROM chaos" >"$work/rows"
  missing "$work/journal" "$work/rows" | sort >"$work/lost.all"
  # What an earlier round lost is told there.
  comm -13 "$work/lost" "$work/lost.all" >"$work/lost.new"
  sort -u -o "$work/lost" "$work/lost" "$work/lost.new"
  lost=$(wc -l <"$work/lost.new")
  ((lost > 0)) || return 0
  [[ -n $may_lose ]] || VIOLATIONS+=("round $round: missing: $lost: acknowledged rows are not on $1, one is $(sed -n 1p "$work/lost.new")")
}

# Reads every register and list of the last two minutes once, so that what was lost is seen by the histories, too.
read_all() { # MEMBER
  local begin end oldest=$((EPOCHSECONDS / 5 - 60))
  begin=${EPOCHREALTIME/[.,]/}
  sql "$1" "SELECT 'read ' || key || ' ' || value FROM registers WHERE key > 'r$oldest' UNION ALL SELECT 'list ' || key || ' ' || value FROM lists WHERE key > 'l$oldest'" \
    >"$work/read_all"
  end=${EPOCHREALTIME/[.,]/}
  awk -v b="$begin" -v e="$end" -v m="$1" '{ print b, e, "judge", $1, $2, $3, "ok", m, "-" }' "$work/read_all" >>"$work/journal.raw"
}

# Once more over everything, then the rows on every member.
at_the_end() {
  local member
  round=end
  read_all "$(primary)"
  journal >/dev/null
  labels
  violations two_acknowledge "$work/journal"
  violations two_writable "$work/journal"
  losses illegal_history "$work/journal" "$work/history.told"
  violations wrong_rw "$work/journal" "$work/rw" "$work/nat" "$work/pods.labels" "$work/kills"
  sleep 2
  for ((member = 0; member < MEMBERS; member++)); do has_everything "$GROUP-$member"; done
}
