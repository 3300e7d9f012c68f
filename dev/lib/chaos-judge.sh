# shellcheck shell=bash
# shellcheck disable=SC2154 # other files set these
# The judge of dev/chaos: what the clients' journal (chaos-client.sh) and the watches say about promises. Each check prints one line for each violation and
# nothing else; chaos-selftest.sh feeds each with a forged journal in which exactly that promise is broken, before every run.
#
# Two things are told apart. A member is *writable* when its server is not in recovery and its transactions may write. It *acknowledges* when a
# client hears that its write is committed. A primary that was cut off stays writable and acknowledges nothing, for its standbys are gone: that alone loses
# no data. Tanist promises more: nobody takes over before the old primary is over. So both are violations, each with its own name.
#
# Moments of the journal are microseconds, all others milliseconds. mawk prints no whole number of that size: what is printed was a field or has six
# digits less.

# What a client was told of a write. Fields: 1 begin, 2 end, 3 client, 4 operation, 5 key, 6 value, 7 outcome, 8 member, 9 timeline.
# shellcheck disable=SC2016 # awk's own
ACKNOWLEDGED='function acknowledged() { return $7 == "ok" && ($4 == "insert" || $4 == "write" || $4 == "append") }'

# Two members that acknowledge on one timeline; or an acknowledgement of an older timeline whose write began after an acknowledgement of a newer timeline had come.
two_acknowledge() { # JOURNAL
  awk "$ACKNOWLEDGED"' acknowledged() {
      if (!($9 in owner)) owner[$9] = $8
      else if (owner[$9] != $8 && !told[$9, $8]++) print "timeline " $9 " is acknowledged by " owner[$9] " and, at " $2 ", by " $8
    }' "$1"
  # As points in time: 0 a write begins, 1 an acknowledgement has come. In the same microsecond nobody can say which was first.
  awk "$ACKNOWLEDGED"' acknowledged() { print $1, 0, $3, $6, $8, $9; print $2, 1, $3, $6, $8, $9 }' "$1" | sort -s -n -k1,1 -k2,2 | awk '
    $2 == 1 && $6 > newest { newest = $6; who = $5; since = $1 }
    $2 == 0 && $6 < newest { print "the write " $4 " of " $3 ", begun at " $1 ", is acknowledged by " $5 " on timeline " $6 \
      ", and " who " had acknowledged on timeline " newest " at " since }'
}

# Two members that are writable at a time, as seen from their own nodes: one that is found writable on an older timeline after another one was on a newer one,
# or two of them on one timeline. One line for each member and timeline.
two_writable() { # JOURNAL
  awk '$4 == "look" && $6 == "writable" { print $1, 0, $8, $9; print $2, 1, $8, $9 }' "$1" | sort -s -n -k1,1 -k2,2 | awk '
    !($4 in owner) { owner[$4] = $3 }
    owner[$4] != $3 && !told[$4, $3]++ { print $3 " is writable on timeline " $4 " at " $1 ", and so was " owner[$4] }
    $2 == 1 && $4 > newest { newest = $4; who = $3; since = $1 }
    $2 == 0 && $4 < newest && $3 != who && !told[$4, $3]++ { print $3 " is still writable on timeline " $4 " at " $1 \
      ", and " who " was on timeline " newest " at " since }'
}

# Who writes must never meet a member in recovery. There are two ways in which Tanist is not at fault, and each counts only if it is proven.
#
# old: Kubernetes leaves the kernel's entries of TCP connections alone when an endpoint goes. A new connection that gets the port of an old one, to a
# member that lost its power, goes where the old one went. The kernel of the client's node reports each new entry; so there is none for that
# connection, and the last one with its port, to that member's address, was made when -rw still led there.
#
# late: the API server was killed, and the controller of endpoints has not read again what changed. The API server had shown, before the
# connection began, that the member has no label of a primary; and its endpoint, there at the kill, had not changed since.
wrong_rw() { ways_of_rw "$@" | sed -n 's/^wrong //p'; }      # JOURNAL ENDPOINTS ENTRIES LABELS KILLS
old_entries() { ways_of_rw "$@" | sed -n 's/^old //p'; }
late_endpoints() { ways_of_rw "$@" | sed -n 's/^late //p'; }
# ENDPOINTS: MS|NAME:READY:ADDRESS...; what conntrack said on NODE is in ENTRIES-NODE; LABELS: MS NAME LABEL; KILLS: a moment in each line.
ways_of_rw() { # JOURNAL ENDPOINTS ENTRIES LABELS KILLS
  local begin end client port member node made address
  while read -r begin end client _ port _ _ member _; do
    node=${client#rw}
    node=${node#-}
    read -r made address < <(newest_entry "$3-${node:-$QUIET}" "$end" "$port") || made=''
    # A connection is given up after 2 s.
    if [[ -n $made ]] && ((made < begin / 1000 - 3000)) && led_there "$2" "$made" "$member" "$address"; then
      echo "old -rw led $client to $member, in recovery, at $end, by an entry of $made"
    elif [[ -n $made ]] && unlabelled "$4" "$((begin / 1000))" "$member" && lists_since_a_kill "$2" "$5" "$((begin / 1000))" "$member" "$address"; then
      echo "late -rw led $client to $member, in recovery, at $end"
    else
      echo "wrong -rw led $client to $member, in recovery, at $end${made:+, by an entry of $made}"
    fi
  done < <(awk '$3 ~ /^rw/ && $4 == "meet" && $6 == "standby"' "$1")
}
# The API server had shown by then that this member is not the primary.
unlabelled() { # LABELS MILLISECONDS MEMBER
  awk -v t="$2" -v m="$3" '$1 > t { exit } $2 == m { seen = 1; label = $3 } END { exit !(seen && label != "primary") }' "$1"
}
# The endpoints have listed this member at this address, without a gap, since a moment at which the API server was killed.
lists_since_a_kill() { # ENDPOINTS KILLS MILLISECONDS MEMBER ADDRESS
  awk -F'|' -v t="$3" -v m="$4:true:$5 " 'NR == FNR { if ($1 <= t && $1 > kill) kill = $1; next }
    $1 > t { exit }
    { listed = index($2, m) > 0; if (!listed) since = ""; else if (since == "") since = $1 }
    END { exit !(kill && since != "" && since <= kill) }' "$2" "$1"
}
# The newest entry that was there at that moment by whose port the server knows the connection: its moment in milliseconds, and the address it leads to.
newest_entry() { # FILE MICROSECONDS PORT
  [[ ! -e $1 ]] || sed -nE 's/^.*\[([0-9]+)\.([0-9]{3})([0-9]{3})\].*\[(NEW|DESTROY)\].* src=([0-9.]+) dst=[0-9.]+ sport=5432 dport=([0-9]+).*$/\1\2\3 \1\2 \5 \6 \4/p' "$1" |
    awk -v e="$2" -v p="$3" '$1 <= e && $4 == p { last = $5 == "NEW" ? $2 " " $3 : "" } END { if (last != "") print last }'
}
# Whether the endpoints said then, or up to a second before, that this member serves at that address.
led_there() { # ENDPOINTS MILLISECONDS MEMBER ADDRESS
  awk -F'|' -v t="$2" -v m="$3:true:$4 " '$1 > t { exit } { if (was && !index($2, m)) left = $1; was = index($2, m) } END { exit !(was || (left && t - left < 1000)) }' "$1"
}

# Who only reads meets a member in recovery. The proxies follow a label within a second: whoever was a secondary until then and leads
# now is late, and no violation. Without any secondary the primary may serve.
wrong_ro() { # JOURNAL PODS
  ro_primaries "$1" "$2" | sed -n 's/^wrong //p'
}
late_ro() { ro_primaries "$1" "$2" | grep -c '^late' || true; } # JOURNAL PODS
ro_primaries() { # JOURNAL PODS: MILLISECONDS NAME LABEL, and each verdict
  awk 'NR == FNR { at[++n] = $1; name[n] = $2; label[n] = $3; next }
    $4 == "meet" && $3 == "ro" && $6 == "primary" {
      delete now; left = -1e15; begin = $1 / 1000
      for (i = 1; i <= n && at[i] <= begin; i++) {
        if (name[i] == $8 && now[name[i]] == "secondary" && label[i] != "secondary") left = at[i]
        now[name[i]] = label[i]
      }
      others = 0
      for (m in now) if (m != $8 && now[m] == "secondary") others++
      if (!others && now[$8] != "secondary") print "alone -ro led to " $8 " at " $2
      else if (now[$8] != "secondary" && begin - left < 1000) print "late -ro led to " $8 " at " $2
      else print "wrong -ro led to " $8 ", not in recovery, at " $2 ", while " others " others served"
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
  comm -23 <(awk '$4 == "insert" && $7 == "ok" { print $5 "|" $6 }' "$1" | sort -u) <(sort -u "$2")
}

# What porcupine says of the histories, but for what it said in an earlier round.
illegal_history() { # JOURNAL TOLD
  "$history" <"$1" | sort >"$2.new"
  comm -13 <(sort "$2") "$2.new"
  sort -u -o "$2" "$2" "$2.new"
}

# Anybody but that member who acknowledged anything after that moment, or was found writable.
others_lead() { # JOURNAL SINCE MEMBER
  awk -v t="$2" -v m="$3" "$ACKNOWLEDGED"' $1 > t * 1000 && $8 != m && $8 != "-" {
    if (acknowledged() && !acks[$8]++) print $8 " acknowledged " $6 " of " $3 " at " $2
    if ($4 == "look" && $6 == "writable" && !open[$8]++) print $8 " is writable at " $2 }' "$1"
}

# A command that makes a primary was started.
told_to_lead() { # COMMANDS
  jq -r '.[] | select(.verb == "failover" or .verb == "seed") | "\(.member) was told to lead: \(.verb) by \(.command), token \(.token)"' "$1"
}

# The longest time without an acknowledgement through -rw from that moment on; the gap may have begun before. And how many came.
outage() { # JOURNAL SINCE
  awk -v t="$2" "$ACKNOWLEDGED"' $3 == "rw" && acknowledged() {
      at = int($2 / 1000); if (at >= t && last && at - last > gap) gap = at - last; last = at; n += at >= t }
    END { printf "%d %d\n", gap, n }' "$1"
}

# ------------------------------------------------- whether the judge could see

# The longest time in which nobody looked at the member of a node, and what client was to look. The node has power all that time.
unseen() { # JOURNAL FROM UNTIL CLIENT
  awk -v f="$2" -v u="$3" -v c="$4" 'BEGIN { last = f }
    $3 == c && $4 == "look" { at = int($2 / 1000); if (at > f && at <= u) { if (at - last > gap) gap = at - last; last = at } }
    END { if (u - last > gap) gap = u - last; if (gap > 8000) printf "%s looked at nobody for %d ms\n", c, gap }' "$1"
}

# Clients inside the partition that tried to write there less than three times; through -rw, or beside the old primary.
silent_inside() { # JOURNAL FROM UNTIL CLIENT
  awk -v f="$2" -v u="$3" -v c="$4" '$3 == c && $7 != "begun" && ($4 == "insert" || $4 == "write" || $4 == "append" || $6 == "none") {
      at = $1 / 1000; n += at > f && at <= u }
    END { if (n < 3) printf "%s tried to write only %d times while the node was cut off\n", c, n }' "$1"
}

# A standby that was cut off lacks nothing that the primary had 1.5 s before that moment: no row would be lost if it led.
no_difference() { # JOURNAL MOMENT PRIMARY LAGGARD
  awk -v t="$2" -v p="$3" -v l="$4" '$4 == "look" && $5 != "-" {
      if ($8 == p && $2 <= (t - 1500) * 1000) primary = $5
      if ($8 == l && $2 <= t * 1000) laggard = $5 }
    END { if (primary == "" || laggard == "") print l " or " p " was not looked at before the loss"
      else if (laggard + 0 >= primary + 0) print l " has all that " p " had 1.5 s before the loss" }' "$1"
}
