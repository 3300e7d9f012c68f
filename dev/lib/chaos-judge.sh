# shellcheck shell=bash
# shellcheck disable=SC2154 # other files set these
# The judge of dev/chaos: what the clients' journal and the watches say about promises. Each check prints one line for each violation and nothing
# else; `judge_is_awake` feeds each with a forged journal in which exactly that promise is broken, before every run.

# Two members that acknowledge on one timeline; or an acknowledgement of an older timeline that began after one of a newer timeline had come.
two_writable() { # JOURNAL
  awk '$4 == "ack" {
      if (!($7 in owner)) owner[$7] = $6
      else if (owner[$7] != $6 && !told[$7, $6]++) print "timeline " $7 " is acknowledged by " owner[$7] " and, at " $2 ", by " $6
    }' "$1"
  # As points in time: 0 a write begins, 1 an acknowledgement has come. At the same millisecond nobody can say which was first.
  awk '$4 == "ack" { print $1, 0, $3, $5, $6, $7; print $2, 1, $3, $5, $6, $7 }' "$1" | sort -s -n -k1,1 -k2,2 | awk '
    $2 == 1 && $6 > newest { newest = $6; who = $5; since = $1 }
    $2 == 0 && $6 < newest { print "row " $4 " of " $3 ", begun at " $1 ", is acknowledged by " $5 " on timeline " $6 \
      ", and " who " had acknowledged on timeline " newest " at " since }'
}

# Who writes must never meet a member in recovery.
wrong_rw() { # JOURNAL
  awk '$3 == "rw" && $4 == "standby" { print "-rw led to " $6 ", in recovery, at " $2 }' "$1"
}

# Who only reads meets a member in recovery. The proxies follow a label within a second: whoever was a secondary until then and leads
# now is late, and no violation. Without any secondary the primary may serve.
wrong_ro() { # JOURNAL PODS
  ro_primaries "$1" "$2" | sed -n 's/^wrong //p'
}
late_ro() { ro_primaries "$1" "$2" | grep -c '^late' || true; } # JOURNAL PODS
ro_primaries() { # JOURNAL PODS: MILLISECONDS NAME LABEL, and each verdict
  awk 'NR == FNR { at[++n] = $1; name[n] = $2; label[n] = $3; next }
    $3 == "ro" && $4 == "primary" {
      delete now; left = -1e15
      for (i = 1; i <= n && at[i] <= $1; i++) {
        if (name[i] == $6 && now[name[i]] == "secondary" && label[i] != "secondary") left = at[i]
        now[name[i]] = label[i]
      }
      others = 0
      for (m in now) if (m != $6 && now[m] == "secondary") others++
      if (!others && now[$6] != "secondary") print "alone -ro led to " $6 " at " $2
      else if (now[$6] != "secondary" && $1 - left < 1000) print "late -ro led to " $6 " at " $2
      else print "wrong -ro led to " $6 ", not in recovery, at " $2 ", while " others " others served"
    }' "$2" "$1"
}

# Somebody is told to take over while the server of the old primary still runs.
too_soon() { # STEPS
  jq -r 'select(.promote and (.ended == null or .ended > .promote))
    | "the promotion began \(.promote) ms after the loss, the old server lived until \(.ended // "the end of the round")"' "$1"
}

# Of a pod that was taken away without grace nobody knows anything: its node has to stay Ready for that long. Memory counts whole seconds.
unproven() { # STEPS SECONDS
  jq -r --argjson least "$2" 'select(.prove and .prove < ($least - 1) * 1000)
    | "the old primary counts as over \(.prove) ms after its pod was deleted by force, and nothing can prove that before \($least) s"' "$1"
}

# Rows that were acknowledged and are not there.
missing() { # JOURNAL PRESENT: a row is CLIENT|ID
  comm -23 <(awk '$4 == "ack" { print $3 "|" $5 }' "$1" | sort -u) <(sort -u "$2")
}

# The longest time without an acknowledgement through -rw from that moment on; the gap may have begun before. And how many came.
outage() { # JOURNAL SINCE
  awk -v t="$2" '$3 == "rw" && $4 == "ack" { if ($2 >= t && last && $2 - last > gap) gap = $2 - last; last = $2; n += $2 >= t }
    END { print gap + 0, n + 0 }' "$1"
}

# Who acknowledged anything after that moment, but for that member.
others_acknowledged() { # JOURNAL SINCE MEMBER
  awk -v t="$2" -v m="$3" '$4 == "ack" && $1 > t && $6 != m { print $6 " acknowledged row " $5 " of " $3 " at " $2 }' "$1"
}

judge_is_awake() {
  local good=$work/forged bad=$work/forged.bad pods=$work/forged.pods
  printf '%s\n' '100 110 rw ack 1 a 1' '105 115 direct-0 ack 1 a 1' '120 130 ro standby - b -' '400 410 rw ack 2 b 2' '420 430 ro standby - c -' \
    '3000 3010 rw ack 3 b 2' >"$good"
  printf '%s\n' '1 a primary' '1 b secondary' '1 c secondary' '300 b ' '401 b primary' '450 a ' >"$pods"
  expect 0 two_writable "$good"
  expect 0 wrong_rw "$good"
  expect 0 wrong_ro "$good" "$pods"
  forge '411 500 direct-0 ack 2 a 1' && expect 1 two_writable "$bad"
  forge '405 500 direct-0 ack 2 a 1' && expect 0 two_writable "$bad" # begun before anybody knew
  forge '411 500 direct-0 ack 2 a 2' && expect 1 two_writable "$bad"
  forge '500 510 rw standby - c -' && expect 1 wrong_rw "$bad"
  forge '500 510 ro primary - b -' && expect 0 wrong_ro "$bad" "$pods" # 200 ms after it was hidden
  forge '2000 2010 ro primary - b -' && expect 1 wrong_ro "$bad" "$pods"
  forge '200 210 ro primary - b -' && expect 1 wrong_ro "$bad" "$pods" # it leads, and is shown as a secondary
  sed 's/secondary/none/' "$pods" >"$pods.alone"
  expect 0 wrong_ro "$bad" "$pods.alone"
  expect 0 too_soon <(echo '{"promote": 700, "ended": 650}')
  expect 1 too_soon <(echo '{"promote": 700, "ended": 750}')
  expect 1 too_soon <(echo '{"promote": 700, "ended": null}')
  expect 0 too_soon <(echo '{"promote": null, "ended": null}')
  expect 0 unproven <(echo '{"prove": 109100}') 110
  expect 1 unproven <(echo '{"prove": 581}') 110
  printf '%s\n' 'rw|1' 'direct-0|1' 'rw|2' 'rw|3' 'rw|4' >"$work/forged.rows"
  expect 0 missing "$good" "$work/forged.rows"
  sed -i /2/d "$work/forged.rows"
  expect 1 missing "$good" "$work/forged.rows"
  [[ $(outage "$good" 200) == "2600 2" ]] || fail "the judge sleeps: outage says $(outage "$good" 200)"
  [[ $(others_acknowledged "$good" 115 a | wc -l) == 2 && -z $(others_acknowledged "$good" 450 b) ]] || fail "the judge sleeps: others_acknowledged"
}
forge() { { cat "$good"; echo "$1"; } >"$bad"; } # LINE
expect() { # VIOLATIONS CHECK ARGUMENTS...
  local wanted=$1 found
  shift
  found=$("$@")
  [[ $(grep -c . <<<"$found") == "$wanted" ]] || fail "the judge sleeps: $1 says '$found' where $wanted violations were forged"
}
