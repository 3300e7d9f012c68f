# shellcheck shell=bash
# The acts of dev/chaos.

NAMESPACE=chaos
GROUP=postgres
# What happens to the primary, in turn.
KINDS=(process hand-over pod pod-forced)
# Milliseconds without an acknowledged write, by round.
OUTAGES=()
PROMOTIONS=()

kube() { "$root/dev/cluster" kubectl -n "$NAMESPACE" "$@"; }
fail() { echo "dev/chaos: $*" >&2; kube get rg,pods -o wide >&2 || true; explain >&2 || true; exit 1; }
explain() { kube get rg "$GROUP" -o go-template='{{range .status.waiting}}   waits: {{.reason}}: {{.message}}{{"\n"}}{{end}}'; }
primary() { kube get rg "$GROUP" -o jsonpath='{.status.primary}'; }
now() { date +%s%3N; }
sql() { kube exec "$1" -c postgres -- psql -X -w -q -A -t -h /run/postgresql -U postgres -d postgres -c "$2"; }
# The client's journal: MILLISECONDS ID, a line for each acknowledged row.
journal() { kube exec client -- cat /tmp/acked 2>/dev/null; }

install() {
  "$root/dev/cluster" load "$TANIST_CACHE/images/tanist.tar" "$TANIST_CACHE/images/postgres.tar" >/dev/null
  kube apply --server-side -k deploy/crd >/dev/null
  kube delete namespace "$NAMESPACE" --ignore-not-found --wait=true >/dev/null
  "$root/dev/cluster" kubectl create namespace "$NAMESPACE" >/dev/null
  "$root/dev/cluster" kubectl apply --server-side --force-conflicts -k deploy/operator >/dev/null
  "$root/dev/cluster" kubectl apply --server-side --force-conflicts -k deploy/rbac/nodes >/dev/null
  kube apply --server-side --force-conflicts -k deploy/rbac/namespace >/dev/null
  "$root/dev/cluster" kubectl set env -n tanist-system deployment/tanist "WATCH_NAMESPACES=$NAMESPACE" >/dev/null
  "$root/dev/cluster" kubectl rollout restart -n tanist-system deployment/tanist >/dev/null
  "$root/dev/cluster" kubectl rollout status -n tanist-system deployment/tanist --timeout=120s | tail -n 1
}

form() {
  kube apply -f examples/postgres/postgres.yaml >/dev/null
  ready 300
  sql "$(primary)" 'CREATE TABLE chaos (id bigint PRIMARY KEY)'
}

ready() {
  kube wait --for=condition=Ready "rg/$GROUP" --timeout="$1s" >/dev/null 2>&1 || fail "the group was not ready within $1 s"
}

client() {
  kube apply -f - >/dev/null <<EOF
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 999, runAsGroup: 999, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: client
      image: tanist.local/postgres:1
      imagePullPolicy: IfNotPresent
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      env:
        - {name: PGPASSWORD, valueFrom: {secretKeyRef: {name: postgres, key: superuser}}}
      command:
        - bash
        - -c
        - |
          id=0
          while :; do
            id=\$((id + 1))
            timeout 3 psql -X -w -q "host=$GROUP-rw user=postgres dbname=postgres sslmode=require connect_timeout=2" \
              -c "INSERT INTO chaos VALUES (\$id)" >/dev/null 2>&1 && echo "\$(date +%s%3N) \$id" >>/tmp/acked
            sleep 0.02
          done
EOF
  kube wait --for=condition=Ready pod/client --timeout=60s >/dev/null
  local until=$((SECONDS + 30))
  until [[ $(journal | wc -l) -gt 20 ]]; do ((SECONDS < until)) || fail "the client's writes are not acknowledged"; sleep 0.5; done
}

# Takes the primary away.
lose() { # KIND MEMBER
  case $1 in
    process) kube exec "$2" -c postgres -- bash -c 'kill -9 $(head -n 1 /var/lib/postgresql/data/postmaster.pid)' ;;
    pod) kube delete pod "$2" --wait=false >/dev/null ;;
    pod-forced) kube delete pod "$2" --grace-period=0 --force --wait=false >/dev/null 2>&1 ;;
    hand-over) kube patch rg "$GROUP" --type merge -p "{\"spec\":{\"preferredPrimary\":\"$(heir "$2")\"}}" >/dev/null ;;
  esac
}

heir() { kube get rg "$GROUP" -o go-template='{{range .status.members}}{{if eq .role "secondary"}}{{.name}}{{"\n"}}{{end}}{{end}}' | grep -v "^$1$" | head -n 1; }

# When the promotion began and ended, after that moment, by the operator's log: MILLISECONDS MILLISECONDS.
promotion() { # SINCE
  "$root/dev/cluster" kubectl logs -n tanist-system deployment/tanist --since=5m |
    python3 -c '
import json, sys, datetime
since = int(sys.argv[1]); began = ended = 0
for line in sys.stdin:
    try: entry = json.loads(line)
    except ValueError: continue
    at = int(datetime.datetime.fromisoformat(entry["timestamp"].replace("Z", "+00:00")).timestamp() * 1000)
    fields = entry.get("fields", {})
    if at < since or fields.get("command") not in ("promote", "seed"): continue
    if fields["message"] == "command starts" and not began: began = at
    if fields["message"].startswith("command ended") and began and not ended: ended = at
print(began, ended)' "$1"
}

play() { # ROUND KIND
  local from to began lost begin end outage acked until
  kube patch rg "$GROUP" --type merge -p '{"spec":{"preferredPrimary":null}}' >/dev/null
  from=$(primary)
  began=$(now)
  lose "$2" "$from"
  until=$((SECONDS + 180))
  # Writes go on: three acknowledged ones after the last gap.
  while :; do
    ((SECONDS < until)) || fail "round $1 ($2): writes did not come back within 180 s"
    sleep 1
    to=$(primary)
    [[ -n $to && ($to != "$from" || $2 == process) ]] || continue
    [[ $(journal | awk -v t="$(($(now) - 1500))" '$1 > t' | wc -l) -ge 3 ]] && break
  done
  ready 240
  read -r outage acked <<<"$(journal | awk -v t="$began" '
    $1 < t { last = $1 } $1 >= t && last { if ($1 - last > gap) gap = $1 - last; last = $1 } END { print gap + 0, NR }')"
  read -r begin end <<<"$(promotion "$began")"
  lost=$(missing "$(primary)")
  printf '%-3s %-10s %-12s %-12s %10s %10s %10s %8s %6s\n' "$1" "$2" "$from" "$(primary)" "$((begin - began))" "$((end - begin))" "$outage" "$acked" "$lost"
  [[ $lost == 0 ]] || fail "round $1 ($2): $lost acknowledged rows are lost"
  OUTAGES+=("$outage")
  PROMOTIONS+=("$((begin - began))")
}

# How many acknowledged rows a member does not have. The journal is read first: what is acknowledged later need not be there.
missing() {
  local acked; acked=$(journal | awk '{print $2}' | sort)
  comm -23 <(echo "$acked") <(sql "$1" 'SELECT id FROM chaos' | sort) | wc -l
}

everyone_has_everything() {
  kube delete pod client --wait=true >/dev/null 2>&1 &
  local acked member; acked=$(journal | wc -l)
  for member in "$GROUP-0" "$GROUP-1" "$GROUP-2"; do
    [[ $(missing "$member") == 0 ]] || fail "$member lacks acknowledged rows"
  done
  echo
  echo "$acked rows were acknowledged; each of the three members has all of them"
  wait
}

report() {
  local sorted; sorted=$(printf '%s\n' "${OUTAGES[@]}" | sort -n)
  echo "without an acknowledged write: p50 $(sed -n "$(((${#OUTAGES[@]} + 1) / 2))p" <<<"$sorted") ms, at most $(tail -n 1 <<<"$sorted") ms"
  sorted=$(printf '%s\n' "${PROMOTIONS[@]}" | sort -n)
  echo "from the loss to the promotion: p50 $(sed -n "$(((${#PROMOTIONS[@]} + 1) / 2))p" <<<"$sorted") ms, at most $(tail -n 1 <<<"$sorted") ms"
}
