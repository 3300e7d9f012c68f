# shellcheck shell=bash
# shellcheck disable=SC2154 # other files set these
# Whether each check of the judge finds what it is there for, and nothing else: with forged journals, before every run.

judge_is_awake() {
  local good=$work/forged bad=$work/forged.bad pods=$work/forged.pods
  printf '%s\n' '100000 110000 rw insert rw 1 ok a 1' '105000 115000 direct-0 insert direct-0 1 ok a 1' '120000 130000 ro meet - standby ok b -' \
    '200000 201000 look-1 look 50 writable ok a 1' '200000 201000 look-2 look 40 recovery ok b -' \
    '400000 410000 rw insert rw 2 ok b 2' '402000 403000 look-2 look 60 writable ok b 2' '420000 430000 ro meet - standby ok c -' \
    '3000000 3010000 rw insert rw 3 ok b 2' >"$good"
  printf '%s\n' '1 a primary' '1 b secondary' '1 c secondary' '300 b ' '401 b primary' '450 a ' >"$pods"
  sees_two_primaries
  sees_wrong_ways
  sees_early_promotions
  sees_lost_rows
  sees_histories
  sees_its_own_blindness
}

forge() { { cat "$good"; echo "$1"; } >"$bad"; } # LINE
expect() { # VIOLATIONS CHECK ARGUMENTS...
  local wanted=$1 found
  shift
  found=$("$@")
  [[ $(grep -c . <<<"$found") == "$wanted" ]] || fail "the judge sleeps: $1 says '$found' where $wanted violations were forged"
}

sees_two_primaries() {
  expect 0 two_acknowledge "$good"
  forge '411000 500000 direct-0 insert direct-0 2 ok a 1' && expect 1 two_acknowledge "$bad"
  forge '405000 500000 direct-0 insert direct-0 2 ok a 1' && expect 0 two_acknowledge "$bad" # begun before anybody knew
  forge '411000 500000 beside-1 append l1 x ok a 2' && expect 1 two_acknowledge "$bad"
  forge '411000 500000 beside-1 write r1 x unknown - -' && expect 0 two_acknowledge "$bad" # it hangs, for its standbys are gone
  expect 0 two_writable "$good"
  forge '404000 405000 look-1 look 50 writable ok a 1' && expect 1 two_writable "$bad"
  forge '402500 405000 look-1 look 50 writable ok a 1' && expect 0 two_writable "$bad" # at the same time nobody knows
  forge '404000 405000 look-1 look 50 writable ok a 2' && expect 1 two_writable "$bad"
  forge '404000 405000 look-1 look 50 readonly ok a 1' && expect 0 two_writable "$bad"
  expect 0 others_lead "$good" 450 b
  expect 2 others_lead "$good" 300 a
  forge '404000 405000 look-3 look 50 writable ok c 3' && expect 1 others_lead "$bad" 300 b
}

# As conntrack reports a new entry.
entry() { # SECONDS PORT ADDRESS
  echo "0|[$1]     [NEW] tcp      6 120 SYN_SENT src=10.0.0.9 dst=10.1.0.1 sport=40000 dport=5432 [UNREPLIED] src=$3 dst=10.0.0.9 sport=5432 dport=$2"
}
sees_wrong_ways() {
  local rw=$work/forged.rw nat=$work/forged.nat kills=$work/forged.kills
  local -a seen=("$rw" "$nat" "$pods" "$kills")
  : >"$kills"
  printf '%s\n' '1|c:true:10.0.0.3 x' '200|b:true:10.0.0.2 x' >"$rw"
  entry 0.100000 7 10.0.0.3 >"$nat-$QUIET"
  entry 9.500000 8 10.0.0.3 >>"$nat-$QUIET"
  entry 0.100000 7 10.0.0.3 >"$nat-node1"
  expect 0 wrong_rw "$good" "${seen[@]}"
  expect 0 wrong_ro "$good" "$pods"
  forge '500000 510000 rw meet - standby ok c -' && expect 1 wrong_rw "$bad" "${seen[@]}"
  forge '500000 510000 rw-node1 meet 7 standby ok c -' && expect 1 wrong_rw "$bad" "${seen[@]}" # the entry may be its own
  forge '9000000 9010000 rw meet 7 standby ok c -' && expect 0 wrong_rw "$bad" "${seen[@]}" && expect 1 old_entries "$bad" "${seen[@]}"
  forge '9000000 9010000 rw-node1 meet 7 standby ok c -' && expect 0 wrong_rw "$bad" "${seen[@]}"
  forge '9000000 9010000 rw meet 6 standby ok c -' && expect 1 wrong_rw "$bad" "${seen[@]}"       # no entry is known
  forge '9000000 9010000 rw-node2 meet 7 standby ok c -' && expect 1 wrong_rw "$bad" "${seen[@]}" # nor on that node
  forge '9490000 9510000 rw meet 8 standby ok c -' && expect 1 wrong_rw "$bad" "${seen[@]}"       # the rules led there, just now
  entry 8.000000 7 10.0.0.3 | sed 's/NEW/DESTROY/' >>"$nat-node1"
  forge '9000000 9010000 rw-node1 meet 7 standby ok c -' && expect 1 wrong_rw "$bad" "${seen[@]}" # the kernel had dropped it
  entry 3.000000 7 10.0.0.3 >>"$nat-$QUIET"
  forge '9000000 9010000 rw meet 7 standby ok c -' && expect 1 wrong_rw "$bad" "${seen[@]}" # at that time they should not
  sees_late_endpoints
  forge '500000 510000 ro meet - primary ok b -' && expect 0 wrong_ro "$bad" "$pods" # 200 ms after it was hidden
  forge '2000000 2010000 ro meet - primary ok b -' && expect 1 wrong_ro "$bad" "$pods"
  forge '200000 210000 ro meet - primary ok b -' && expect 1 wrong_ro "$bad" "$pods" # it leads, and is shown as a secondary
  sed 's/secondary/none/' "$pods" >"$pods.alone"
  expect 0 wrong_ro "$bad" "$pods.alone"
}

# The API server is killed at 300: who was primary, b, loses the label at 600, and the endpoints follow at 20000.
sees_late_endpoints() {
  local rw=$work/forged.late-rw nat=$work/forged.late-nat kills=$work/forged.late-kills labels=$work/forged.late-labels
  local -a seen=("$rw" "$nat" "$labels" "$kills")
  printf '%s\n' '100|b:true:10.0.0.2 x' '20000|c:true:10.0.0.3 x' >"$rw"
  printf '%s\n' '1 b primary' '600 b ' '900 b secondary' >"$labels"
  echo 300 >"$kills"
  { entry 0.500000 4 10.0.0.2; entry 5.000000 5 10.0.0.2; entry 5.000000 6 10.0.0.3; entry 20.000000 7 10.0.0.2; } >"$nat-$QUIET"
  forge '5000000 5010000 rw meet 5 standby ok b -' && expect 0 wrong_rw "$bad" "${seen[@]}" && expect 1 late_endpoints "$bad" "${seen[@]}"
  forge '500000 510000 rw meet 4 standby ok b -' && expect 1 wrong_rw "$bad" "${seen[@]}"    # it still has the label
  forge '5000000 5010000 rw meet 9 standby ok b -' && expect 1 wrong_rw "$bad" "${seen[@]}"  # no entry is known
  forge '5000000 5010000 rw meet 6 standby ok b -' && expect 1 wrong_rw "$bad" "${seen[@]}"  # the rules led elsewhere
  forge '20000000 20010000 rw meet 7 standby ok b -' && expect 1 wrong_rw "$bad" "${seen[@]}" # the endpoints have followed
  forge '5000000 5010000 rw meet 5 standby ok b -'
  echo 6000 >"$kills" && expect 1 wrong_rw "$bad" "${seen[@]}" # the API server is killed later
  : >"$kills" && expect 1 wrong_rw "$bad" "${seen[@]}"
  echo 300 >"$kills"
  sed -i '1a 400|x\n450|b:true:10.0.0.2 x' "$rw" && expect 1 wrong_rw "$bad" "${seen[@]}" # it was listed again after the kill
}

sees_early_promotions() {
  expect 0 too_soon <(echo '{"promote": 700, "ended": 650}')
  expect 1 too_soon <(echo '{"promote": 700, "ended": 750}')
  expect 1 too_soon <(echo '{"promote": 700, "ended": null}')
  expect 0 too_soon <(echo '{"promote": null, "ended": null}')
  expect 0 unproven <(echo '{"prove": 109100}') 110
  expect 1 unproven <(echo '{"prove": 581}') 110
  expect 0 told_to_lead <(echo '[{"verb": "follow", "member": "b", "command": "follow", "token": "x"}]')
  expect 1 told_to_lead <(echo '[{"verb": "failover", "member": "b", "command": "promote", "token": "x"}]')
}

sees_lost_rows() {
  printf '%s\n' 'rw|1' 'direct-0|1' 'rw|2' 'rw|3' 'rw|4' >"$work/forged.rows"
  expect 0 missing "$good" "$work/forged.rows"
  sed -i /2/d "$work/forged.rows"
  expect 1 missing "$good" "$work/forged.rows"
  [[ $(outage "$good" 200) == "2600 2" ]] || fail "the judge sleeps: outage says $(outage "$good" 200)"
}

# That the program itself is right, its own tests show (dev/history); here, that it is asked, and reads this very journal.
sees_histories() {
  local told=$work/forged.told
  : >"$told"
  expect 0 illegal_history "$good" "$told"
  forge $'500000 510000 rw write r1 x ok b 2\n520000 530000 beside-1 read r1 nil ok a 1' && expect 1 illegal_history "$bad" "$told"
  expect 0 illegal_history "$bad" "$told" # it was told already
  forge $'500000 510000 rw append l1 x ok a 1\n520000 530000 rw append l1 y ok b 2\n540000 550000 rw list l1 y ok b 2' && expect 1 illegal_history "$bad" "$told"
}

sees_its_own_blindness() {
  printf '%s\n' '1000000 1010000 look-1 look 50 writable ok a 1' '8000000 8010000 look-1 look - none ok - -' >"$bad"
  expect 0 unseen "$bad" 0 9000 look-1
  expect 1 unseen "$bad" 0 20000 look-1
  expect 1 unseen "$bad" 0 9000 look-2
  printf '%s\n' '1000 1000 beside-1 write r1 1 begun - -' '1000 3000000 beside-1 write r1 1 unknown - -' '4000000 6000000 beside-1 insert beside-1 2 unknown - -' \
    '7000000 9000000 beside-1 append l1 3 unknown - -' '7000000 9000000 rw-1 meet - none ok - -' >"$bad"
  expect 0 silent_inside "$bad" 0 9000 beside-1
  expect 1 silent_inside "$bad" 2000 9000 beside-1
  expect 1 silent_inside "$bad" 0 9000 rw-1
  printf '%s\n' '200000 201000 look-1 look 50 writable ok a 1' '1500000 1501000 look-1 look 70 writable ok a 1' '1500000 1501000 look-2 look 40 recovery ok b -' >"$bad"
  expect 0 no_difference "$bad" 1800 a b
  expect 1 no_difference "$bad" 1800 a c
  echo '1600000 1601000 look-2 look 60 recovery ok b -' >>"$bad" # behind, by less than it takes to look
  expect 1 no_difference "$bad" 1800 a b
}
