# shellcheck shell=bash
# shellcheck disable=SC2154 # who reads this sets root
# The acts of dev/demo.

NAMESPACE=demo
GROUP=galera
# The ids of the rows that the database acknowledged: what must be there at the end.
ACKED=$(mktemp)
trap 'rm -f "$ACKED"' EXIT

kube() { "$root/dev/cluster" kubectl "$@"; }
member() { local m=$1; shift; kube exec -n "$NAMESPACE" "$GROUP-$m" -c mariadb -- "$@"; }
sql() { local m=$1; shift; member "$m" galera sql "$*"; }
fail() { echo "dev/demo: $*" >&2; kube get -n "$NAMESPACE" rg,pods >&2 || true; explain >&2 || true; exit 1; }

# When the first act and the present one began, in seconds of this shell.
FIRST_ACT=
THIS_ACT=

# Says how long the present act took, if there is one.
end_act() {
  [[ -z $THIS_ACT ]] || echo "   this act took $((SECONDS - THIS_ACT)) s"
}

act() {
  end_act
  THIS_ACT=$SECONDS
  FIRST_ACT=${FIRST_ACT:-$THIS_ACT}
  printf '\n\033[1m%s\033[0m\n' "$1"
  shift
  printf '   %s\n' "$@"
}

# The members as the group itself reports them.
table() {
  echo
  # shellcheck disable=SC2016 # of the template
  kube get rg -n "$NAMESPACE" "$GROUP" -o go-template='{{printf "   %-10s %-9s %-9s %-6s %-5s %s\n" "MEMBER" "PHASE" "ROLE" "READY" "TERM" "SEQUENCE"}}{{range .status.members}}{{$s := "-"}}{{if .sequence}}{{$s = .sequence}}{{end}}{{$t := "-"}}{{if .term}}{{$t = printf "%v" .term}}{{end}}{{printf "   %-10s %-9s %-9s %-6v %-5s %s\n" .name .phase .role .ready $t $s}}{{end}}'
}

# The last seed, with the reason for each member.
decision() {
  echo
  kube get rg -n "$NAMESPACE" "$GROUP" -o go-template='{{range .status.decisions}}{{if eq .point "seed"}}   who was started first, in term {{.term}}, {{if .policy}}asked of {{.policy}}{{else}}without a policy{{end}}:
{{range .members}}{{printf "     %-10s %-12s %s\n" .member .result .reason}}{{end}}{{end}}{{end}}'
}

led() {
  kube get rg -n "$NAMESPACE" "$GROUP" -o go-template='{{range .status.decisions}}{{if eq .point "seed"}}{{.chosen}}{{end}}{{end}}'
}

explain() {
  kube get rg -n "$NAMESPACE" "$GROUP" -o go-template='{{range .status.awaiting}}   waits: {{.message}}{{"\n"}}{{end}}'
}

install_operator() {
  "$root/dev/cluster" load "$TANIST_CACHE/images/tanist.tar" "$TANIST_CACHE/images/galera.tar" "$TANIST_CACHE/images/register.tar"
  kube apply --server-side -k deploy/crd >/dev/null
  kube create namespace "$NAMESPACE" --dry-run=client -o yaml | kube apply --server-side -f - >/dev/null
  kube apply --server-side --force-conflicts -k deploy/operator >/dev/null
  kube apply --server-side -k deploy/rbac/nodes >/dev/null
  kube apply --server-side -n "$NAMESPACE" -k deploy/rbac/namespace >/dev/null
  kube set env -n tanist-system deployment/tanist "WATCH_NAMESPACES=$NAMESPACE" >/dev/null
  # The image may have been built anew under the same name.
  kube rollout restart -n tanist-system deployment/tanist >/dev/null
  kube rollout status -n tanist-system deployment/tanist --timeout=120s | tail -n 1 | sed 's/^/   /'
}

form() {
  # A second demo starts from nothing too: the group is deleted, and its claims as well, as an administrator would do it.
  kube delete rg -n "$NAMESPACE" "$GROUP" --ignore-not-found --wait=true >/dev/null 2>&1
  kube wait -n "$NAMESPACE" --for=delete "statefulset/$GROUP" --timeout=60s >/dev/null 2>&1
  kube delete pods -n "$NAMESPACE" -l tanist.dev/group="$GROUP" --ignore-not-found --wait=true --grace-period=1 >/dev/null 2>&1
  kube delete pvc -n "$NAMESPACE" -l tanist.dev/group="$GROUP" --ignore-not-found --wait=true >/dev/null 2>&1
  kube apply -n "$NAMESPACE" -f examples/galera/group.yaml >/dev/null
  ready 300
}

# Waits until every member is in its role, and shows meanwhile what the group waits for.
ready() {
  local deadline=$((SECONDS + $1)) start=$SECONDS last='' now=''
  until kube wait -n "$NAMESPACE" --for=condition=Ready "rg/$GROUP" --timeout=2s >/dev/null 2>&1; do
    ((SECONDS < deadline)) || fail "the group was not ready within $1 s"
    # sed reads to the end: a reader that ends earlier also ends its writer, with 141.
    now=$(explain | sed -n 1p | cut -c1-150 | sed 's/[0-9]* s more/a while more/; s/ for [0-9]* s$//')
    if [[ -n $now && $now != "$last" ]]; then echo "$now"; last=$now; fi
  done
  echo "   ready after $((SECONDS - start)) s"
}

# Each statement is one transaction; only ids that the server acknowledged are recorded.
insert() { # MEMBER COUNT
  local ids
  # shellcheck disable=SC2016 # the member's shell expands it
  ids=$(member "$1" bash -c 'for ((i = 0; i < $0; i++)); do galera sql "INSERT INTO demo.rows (writer) VALUES (\"$POD_NAME\"); SELECT LAST_INSERT_ID()" 2>/dev/null || true; done' "$2")
  sed '/^$/d' <<<"$ids" >>"$ACKED"
  echo "   $(grep -c . <<<"$ids" || true) rows acknowledged through $GROUP-$1, $(wc -l <"$ACKED") in all"
}

write_rows() {
  sql 0 'CREATE DATABASE IF NOT EXISTS demo' >/dev/null
  sql 0 'CREATE TABLE demo.rows (id BIGINT AUTO_INCREMENT PRIMARY KEY, writer VARCHAR(64)) ENGINE=InnoDB' >/dev/null
  for m in 0 1 2; do insert "$m" 20; done
  paused true
  send KILL 0
  insert 1 20
  insert 2 20
}

# Sends a signal to the database of a member.
send() { # SIGNAL MEMBER
  # shellcheck disable=SC2016
  member "$2" bash -c 'for f in /proc/[0-9]*; do read -r -d "" name <$f/cmdline 2>/dev/null; [[ ${name##*/} == mariadbd ]] && kill -$0 ${f#/proc/}; done; true' "$1" 2>/dev/null || true
}

# While a group is paused, the operator starts and stops nothing in it.
paused() { # true|false
  kube patch rg -n "$NAMESPACE" "$GROUP" --type=merge -p "{\"spec\": {\"paused\": $1}}" >/dev/null
}

# With a second of grace the kubelet says that nothing of a pod runs any more. Without grace (--force) the operator waits 90 s for proof.
delete_pods() {
  kube delete pods -n "$NAMESPACE" -l tanist.dev/group="$GROUP" --grace-period=1 --wait=true >/dev/null 2>&1
}

kill_all() {
  for m in 1 2; do send KILL "$m"; done
  delete_pods
  echo "   all dead"
  paused false
}

recover() {
  # The condition is still Ready from before; the outage has to show first.
  kube wait -n "$NAMESPACE" --for=condition=Ready=false "rg/$GROUP" --timeout=60s >/dev/null 2>&1 ||
    kube wait -n "$NAMESPACE" --for=condition=Ready=unknown "rg/$GROUP" --timeout=1s >/dev/null 2>&1 || true
  ready 600
}

# Compares ids, not counts: with counts an unacknowledged row could hide a lost one.
check_rows() {
  local m held lost
  for m in 0 1 2; do
    held=$(sql "$m" 'SELECT id FROM demo.rows' | sort)
    lost=$(comm -23 <(sort "$ACKED") - <<<"$held" | paste -sd' ')
    [[ -z $lost ]] || fail "$GROUP-$m lost acknowledged rows: $lost"
    echo "   $GROUP-$m has $(wc -l <<<"$held") rows, among them all $(wc -l <"$ACKED") that were acknowledged"
  done
}

swap_policy() {
  sed 's/^/   | /' examples/policies/prefer.star
  kube create configmap -n "$NAMESPACE" rules --from-file=prefer.star=examples/policies/prefer.star --dry-run=client -o yaml |
    kube label -f - --local -o yaml tanist.dev/policy=true | kube apply --server-side -f - >/dev/null
  kube patch rg -n "$NAMESPACE" "$GROUP" --type=merge -p "{\"spec\": {\"policies\": [
    {\"configMap\": {\"name\": \"rules\", \"key\": \"prefer.star\"}, \"parameters\": {\"member\": \"$GROUP-1\"}}]}}" >/dev/null
  local deadline=$((SECONDS + 30))
  until [[ $(kube get rg -n "$NAMESPACE" "$GROUP" -o go-template='{{range .status.policies}}{{.name}}={{.state}} {{end}}') == prefer=Active* ]]; do
    ((SECONDS < deadline)) || fail "the policy was not loaded"
    sleep 1
  done
  kube get rg -n "$NAMESPACE" "$GROUP" -o go-template='{{range .status.policies}}{{printf "   %s %s from %s: %s\n" .name .version .source .state}}{{end}}'
}

kill_all_equal() {
  local m
  # All are stopped by SIGSTOP first: each death that others see is an event in Galera and raises their number.
  paused true
  for m in 0 1 2; do send STOP "$m"; done
  for m in 0 1 2; do send KILL "$m"; done
  delete_pods
  echo "   all dead, with equal data"
  paused false
}

not_led_by() { [[ $(led) != "$GROUP-$1" ]] || fail "$GROUP-$1 missed the last rows and was still started first"; }

finish() {
  [[ $(led) == "$GROUP-1" ]] || fail "$GROUP-1 should have been started first after the last outage, but $(led) was"
  end_act
  printf '\n   all acts took %s s\n' $((SECONDS - FIRST_ACT))
  cat <<EOF

Everything is still running. Some commands to try:
   dev/cluster kubectl get rg -n $NAMESPACE -w
   dev/cluster kubectl describe rg -n $NAMESPACE $GROUP
   dev/cluster kubectl delete pod -n $NAMESPACE $GROUP-2                # and watch it come back
   dev/cluster kubectl apply -n $NAMESPACE -f examples/register/group.yaml   # the group that README shows
Stop with: make cluster-down
EOF
}
