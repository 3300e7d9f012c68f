# shellcheck shell=bash
# shellcheck disable=SC2154 # other files set these
# What dev/chaos prints and writes.

line() { printf '%-3s %-19s %-11s %-11s %7s %7s %7s %7s %7s %7s %8s %8s %7s %7s %7s %8s %6s %5s\n' "$@"; }
header() {
  echo
  echo "Milliseconds since the loss; - is no such step. told: when an administrator, or the test, fixed something. shown: it is behind $GROUP-rw."
  line '' loss from to told ended leads detect prove decide promote promoted follow route shown outage acked lost
}

# A row of the table and its JSON. Of the caller: loss, told, why, lost, load.
row() { # KIND FROM TO
  local gap acked after=null said=null cell
  read -r gap acked <<<"$(outage "$work/journal" "$loss")"
  if [[ -n $told ]]; then
    said=$((told - loss))
    # From there to the first acknowledged row.
    after=$(awk -v t="$told" "$ACKNOWLEDGED"'$3 == "rw" && acknowledged() && $1 > t * 1000 { printf "%d", $2 / 1000 - t; exit }' "$work/journal")
  fi
  jq -n -c --arg kind "$1" --arg from "$2" --arg to "$3" --arg why "$why" --slurpfile steps "$work/steps" \
    --argjson number "[$round, $loss, $said, $gap, ${after:-null}, $acked, $lost, $load]" '
    $number as [$round, $at, $told, $outage, $after, $acked, $lost, $load]
    | {$round, $at, $kind, $from, $to, $told} + $steps[0]
      + {$outage, outageAfterTold: $after, $acked, $lost, $load, waitedFor: (if $why == "" then null else $why end)}' |
    tee -a "$work/rounds" >"$work/round"
  read -r -a cell <<<"$(jq -r '[.round, .kind, .from, .to, .told, .ended, .leads, .detect, .prove, .decide, .promote, .promoted, .follow,
      .route, .shown, .outage, .acked, .lost] | map(. // "-" | tostring) | join(" ")' "$work/round")"
  line "${cell[@]}"
  [[ -z $why ]] || echo "    nobody took over while nobody knew: $why"
}

# The rounds, p50 and the largest by kind, what was violated.
summary() { # COMPLETE
  jq -s --argjson complete "$1" --arg date "$(date -u +%FT%TZ)" --argjson cpus "$(nproc)" --argjson members "$MEMBERS" --arg setting "$setting" --arg mayLose "$may_lose" '
    def figures: map(values) | sort | if length == 0 then null else {p50: .[((length - 1) / 2 | floor)], max: .[-1]} end;
    def of(field): map(field) | figures;
    {$date, $complete, $cpus, members: $members, $setting, mayLose: ($mayLose == "yes"), violations: $ARGS.positional, rounds: .,
     kinds: (group_by(.kind) | map({kind: .[0].kind, rounds: length, outage: of(.outage), afterTold: of(.outageAfterTold),
       detect: of(.detect), prove: of(.prove), promote: of(.promote), shown: of(.shown)}))}' \
    "$work/rounds" --args -- "${VIOLATIONS[@]}"
}

report() {
  local cell
  printf '\n%-12s %3s %16s %16s %16s %16s %16s %16s\n' 'p50 / most' n outage 'of it, told' detect prove promote shown
  while read -r -a cell; do printf '%-12s %3s %16s %16s %16s %16s %16s %16s\n' "${cell[@]}"; done < <(jq -r '.kinds[]
    | [.kind, .rounds] + ([.outage, .afterTold, .detect, .prove, .promote, .shown]
      | map(if . then "\(.p50)/\(.max)" else "-" end)) | join(" ")' "$json")
  echo
  awk "$ACKNOWLEDGED"'acknowledged() { all++; n[$3]++ }
    $7 != "begun" && ($4 == "insert" || $4 == "write" || $4 == "append") { tried[$3]++ }
    ($4 == "read" || $4 == "list") && $7 == "ok" { reads++ }
    $4 == "look" { looks[$6]++ }
    END {
      printf "%d writes were acknowledged, %d of them through -rw; %d reads were answered\n", all, n["rw"], reads
      for (c in tried) printf "%s: %d of %d writes were acknowledged\n", c, n[c], tried[c] | "sort"
      close("sort")
      for (l in looks) printf "%d times a server was looked at and was: %s\n", looks[l], l
    }' "$work/journal"
  awk -v late="$(late_ro "$work/journal" "$work/pods.labels")" '$3 == "ro" { n[$6]++ } END {
    printf "-ro led %d times to a member in recovery, %d times to the primary (%d of them within a second of its label), %d times to nobody\n",
      n["standby"], n["primary"], late, n["none"] }' "$work/journal"
  old_entries "$work/journal" "$work/rw" "$work/nat" "$work/pods.labels" "$work/kills" | sed 's/$/, by an old entry of the kernel/'
  late_endpoints "$work/journal" "$work/rw" "$work/nat" "$work/pods.labels" "$work/kills" |
    awk 'NR == 1 { first = $0 } END { if (NR) print first ": " NR " connections while the endpoints were late after the end of an API server" }'
  echo "the rounds as JSON: $json"
}
