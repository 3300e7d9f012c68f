# shellcheck shell=bash
# shellcheck disable=SC2154 # other files set these
# What dev/chaos sees of a round: every version of the group, its pods and Services with the moment it came, and the operator's log.

WATCHERS=()

# MOMENT|LINE in milliseconds: nothing that Kubernetes says of itself is finer than a second. No tabs: kubectl makes blanks of them.
stamp() { local line; while IFS= read -r line; do printf '%s|%s\n' "${EPOCHREALTIME:0:10}${EPOCHREALTIME:11:3}" "$line"; done; }

# A watch ends now and then; the next one begins with all that is there. Each in a process group of its own, to be ended with all it started.
record() { # FILE COMMAND...
  local file=$1
  shift
  : >"$work/$file"
  set -m
  { while :; do "$@" || true; sleep 0.2; done | stamp >>"$work/$file"; } 2>>"$work/watches.log" </dev/null &
  WATCHERS+=($!)
  set +m
}

watch_all() {
  local node
  record group kube get rg "$GROUP" --watch -o jsonpath='{.status}{"\n"}'
  record pods kube get pods -l "tanist.dev/group=$GROUP" --watch \
    -o jsonpath='{.metadata.name}|{.metadata.labels.tanist\.dev/role}|{.metadata.uid}{"\n"}'
  record rw kube get endpointslices -l "kubernetes.io/service-name=$GROUP-rw" --watch \
    -o jsonpath='{range .endpoints[*]}{.targetRef.name}:{.conditions.ready}:{.addresses[0]} {end}{.metadata.name}{"\n"}'
  for node in node1 node2 node3 "$QUIET"; do
    # The kernel's own word of each connection: when it came, and whom the rules of that moment chose.
    record "nat-$node" "$root/dev/cluster" enter "$node" conntrack -E -e NEW,DESTROY -o timestamp -p tcp --dport 5432
  done
  # What a pod said is gone with it; each stream begins with all that there is.
  record operator everywhere logs -n tanist-system -f -l tanist.dev/component=operator --tail=-1
}

# Looks at the old server's own process, on its node: the one witness who needs nobody's word. Its end is stamped into `ended`; so is that of
# the node.
witness() { # NODE CONTAINER
  : >"$work/witness"
  : >"$work/ended"
  set -m
  # shellcheck disable=SC2016 # the node's shell
  { "$root/dev/cluster" enter "$1" bash -c '
      for pid in $(ctr --address "$1" --namespace k8s.io tasks ps "$2" | sed "1d; s/ .*//"); do
        [[ $(tr "\0" " " <"/proc/$pid/cmdline") != */postgres\ -D* ]] || break
      done
      exec {never}<> <(:)
      echo "$pid"
      # A process that is dead and not buried yet has no command line.
      while read -r -d "" _ <"/proc/$pid/cmdline"; do read -r -t 0.03 -u "$never"; done' \
      _ "/run/tanist/$CLUSTER/$1.sock" "${2#*://}" >"$work/witness" || true; now >"$work/ended"; } 2>>"$work/watches.log" </dev/null &
  WITNESS=$!
  set +m
  within 10 test -s "$work/witness" || fail "the server of the primary is not found on $1"
}

dismiss() { # a witness who saw no end
  [[ -z $WITNESS ]] || kill -TERM -- "-$WITNESS" 2>/dev/null || true
  WITNESS=''
}

unwatch() {
  dismiss
  local pid
  for pid in "${WATCHERS[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || true; done
  WATCHERS=()
}

# MILLISECONDS NAME LABEL, for the judge.
labels() { cut -d'|' -f1-3 --output-delimiter=' ' "$work/pods" >"$work/pods.labels"; }
# The clients' journal as far as it has come.
journal() { awk 'NF == 9' "$work/journal.raw" >"$work/journal" && echo "$work/journal"; }

# When an operator began to lead, for the first time since a moment, in milliseconds.
leads() { # SINCE
  operator_log "$1" | jq -R -r -n --argjson since "$1" '
    def ms: capture("^(?<s>[^.]*)\\.?(?<f>[0-9]*)Z$") | ((.s + "Z" | fromdateiso8601) * 1000) + ((.f + "000")[0:3] | tonumber);
    [inputs | fromjson? | select(.fields.message == "leading") | .timestamp | ms | select(. >= $since)] | min // empty'
}

# The operator's log since a moment, also of one that is gone; some lines more than once.
operator_log() { # SINCE
  awk -F'|' -v t="$1" '$1 >= t { print substr($0, length($1) + 2) }' "$work/operator"
  everywhere logs -n tanist-system -l tanist.dev/component=operator --tail=-1 --since-time="$(date -u -d "@$(($1 / 1000))" +%FT%TZ)" || true
}

# Commands in a round as JSON: token, verb, command, member, start and end in milliseconds; an end that is not there is null.
commands() { # SINCE
  operator_log "$1" | jq -R -c -n --argjson since "$1" '
    def ms: capture("^(?<s>[^.]*)\\.?(?<f>[0-9]*)Z$") | ((.s + "Z" | fromdateiso8601) * 1000) + ((.f + "000")[0:3] | tonumber);
    [inputs | fromjson? | select(.fields.token) | {at: (.timestamp | ms), f: .fields} | select(.at >= $since)]
    | group_by(.f.token) | map({
        token: .[0].f.token, verb: (.[0].f.token | sub("-[0-9]+-.*$"; "")), command: .[0].f.command, member: .[0].f.member,
        start: (map(select(.f.message == "command starts").at) | first), end: (map(select(.f.message | startswith("command ended")).at) | first),
        well: any(.[]; .f.message == "command ended well")})'
}

# The steps of a round in milliseconds since the loss; null: there was no such step. Said by the operator itself, but for `known`, the first
# change of the lost pod that the API server shows, and `shown`, the endpoint behind -rw.
#
#   ended    the old server's process is gone, as seen on its node
#   leads    another operator leads, where one was killed
#   detect   the operator takes the label away, or says that this member is not primary any more
#   prove    the record no longer counts the lost container among those that may be primary
#   decide   the record has the intent to let another lead
#   promote, promoted, follow     its command starts, ended; the last of those who stayed was pointed at the new primary
#   route    the new primary has the label
steps() { # LOSS FROM CONTAINER TO
  local since=$1 from=$2 container=$3 to=$4
  local unlabelled labelled known shown ended leads
  known=$(awk -F'|' -v t="$since" -v m="$from" '$1 >= t && $2 == m { print $1; exit }' "$work/pods")
  unlabelled=$(awk -F'|' -v t="$since" -v m="$from" '
    $2 == m { if ($1 >= t && was == "primary" && $3 != "primary") { print $1; exit } was = $3 }' "$work/pods")
  labelled=$(awk -F'|' -v t="$since" -v m="$to" '
    $2 == m { if ($1 >= t && was != "primary" && $3 == "primary") { print $1; exit } was = $3 }' "$work/pods")
  shown=$(awk -F'|' -v t="$since" -v m="$to:true:" '{ if ($1 >= t && was && index($2, m)) { print $1; exit } was = !index($2, m) }' "$work/rw")
  ended=$(<"$work/ended")
  leads=$(leads "$since")
  awk -F'|' -v t="$since" '$1 >= t { print "[" $1 "," substr($0, length($1) + 2) "]" }' "$work/group" >"$work/group.round"
  commands "$since" >"$work/commands"
  jq -n -c --slurpfile versions "$work/group.round" --slurpfile commands "$work/commands" \
    --argjson since "$since" --arg from "$from" --arg to "$to" --arg container "$container" \
    --arg known "$known" --arg unlabelled "$unlabelled" --arg labelled "$labelled" --arg shown "$shown" --arg ended "$ended" --arg leads "$leads" '
    def primary: .primary // (.primaries // [] | first) // "";
    def moment: if . == "" then null else tonumber end;
    def version(f): first($versions[] | select(.[1] | f) | .[0]) // null;
    def since: if . == null then null else . - $since end;
    version(primary != $from) as $said
    | version([.record.intents[]? | select(.verb == "failover" or .verb == "seed")] | length > 0) as $decided
    | (first($commands[0][] | select(.verb == "failover" or .verb == "seed") | select(.member == $to and .well)) // null) as $promotion
    | ([$commands[0][] | select(.verb == "follow" and .member != $from and .member != $to and .well).end] | max) as $follow
    | {known: ($known | moment), ended: ($ended | moment), leads: ($leads | moment), detect: ([($unlabelled | moment), $said] | map(values) | min),
       prove: version([.record.lastPrimaries[]? | select(.member == $from and .containerId == $container)] | length == 0), decide: $decided,
       promote: $promotion.start, promoted: $promotion.end, follow: $follow, route: ($labelled | moment), shown: ($shown | moment)}
    | map_values(since)' || fail "the steps of the round cannot be read"
}
