#!/bin/bash
# The clients of dev/chaos; runs in a pod of its own, from a ConfigMap. Each writes one line for what it learned to the journal that all share:
#
#   BEGIN END CLIENT VERDICT ID MEMBER TIMELINE       moments in milliseconds; what does not apply is -
#
#   rw ack          that row was acknowledged through GROUP-rw, by that member on that timeline
#   rw standby      a connection through GROUP-rw reached a member in recovery
#   direct-N ack    the member was asked by its own name, and acknowledged a write
#   direct-N tried  it was asked for as many writes as ID says, whatever came of it
#   ro standby, ro primary, ro none
#
# A psql that lives on costs next to nothing; a new one some 30 ms of processor. So sessions are kept: through GROUP-rw for a second, since each
# new connection is a question of routing, too; to a member until it breaks.
#
# usage: chaos-client.sh GROUP MEMBERS
set -u
export LC_ALL=C
trap '' PIPE
# Refusals by standbys are what is asked for here, ten a second: nothing for their logs.
export PGOPTIONS='-c log_min_messages=panic' PGUSER=postgres PGDATABASE=postgres PGSSLMODE=require PGCONNECT_TIMEOUT=2
group=$1 members=$2 folder=/tmp
HOST="trim(both E'\\n' from pg_read_file('/etc/hostname'))"
WHO="SELECT CASE WHEN pg_is_in_recovery() THEN 'standby ' ELSE 'primary ' END || $HOST"
exec {never}<> <(:)

now() { moment=${EPOCHREALTIME/[.,]/}; moment=${moment:0:-3}; }
rest() { read -r -t "$1" -u "$never"; } # a sleep that starts no process
# One write of a line is never torn apart by another.
note() { printf '%s %s %s %s %s %s %s\n' "$@" >>"$folder/journal"; }

connect() { # HOST
  # It waits for a line first: the shell forgets the ends of one that has ended already, before they could be kept.
  coproc SERVER { read -r; exec psql -X -w -q -A -t "host=$1" 2>&1; }
  # The shell closes its own ends as soon as psql has ended, also those with something left to read.
  exec {to}>&"${SERVER[1]}" {from}<&"${SERVER[0]}"
  server=$SERVER_PID
  echo >&"$to"
}
disconnect() {
  [[ -n $server ]] || return 0
  exec {to}>&- {from}<&-
  kill -KILL "$server" 2>/dev/null
  wait "$server" 2>/dev/null
  server=''
}
# Sets answer to all that came in time. False: the session is of no use any more.
ask() { # SQL
  local line
  answer=''
  { printf '%s;\n\\echo .\n' "$1" >&"$to"; } 2>/dev/null || { disconnect; return 1; }
  while read -r -t 2 -u "$from" line; do
    [[ $line != . ]] || return 0
    answer+=$line
  done
  disconnect
  return 1
}

# The next row. An answer of several lines has a warning in it: the wait for the standby may have been cut off, that is no acknowledgement.
write() { # CLIENT
  local begin
  id=$((id + 1))
  now
  begin=$moment
  ask "INSERT INTO chaos VALUES ('$1', $id) RETURNING 'ack $id ' || $HOST || ' ' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)" || return
  now
  if [[ $answer =~ ^ack\ $id\ ([a-z0-9-]+)\ ([0-9A-F]{8})$ ]]; then
    note "$begin" "$moment" "$1" ack "$id" "${BASH_REMATCH[1]}" "$((16#${BASH_REMATCH[2]}))"
  fi
}

through_rw() {
  local id=0 begin
  while :; do
    now
    begin=$moment
    connect "$group-rw"
    if ask "$WHO"; then
      now
      [[ $answer != standby\ * ]] || note "$begin" "$moment" rw standby - "${answer#* }" -
      for _ in {1..10}; do
        write rw || break
        [[ $answer != *ERROR* ]] || break
        rest 0.08
      done
    fi
    disconnect
    rest 0.05
  done
}

tried() { # CLIENT
  ((id % 20 != 0)) || note "$moment" "$moment" "$1" tried 20 - -
}
direct() { # ORDINAL
  local id=0
  while :; do
    connect "$group-$1.$group"
    while write "direct-$1"; do
      tried "direct-$1"
      rest 0.2
    done
    tried "direct-$1"
    rest 0.2
  done
}

through_ro() {
  local begin said
  while :; do
    now
    begin=$moment
    said=$(timeout 3 psql -X -w -q -A -t "host=$group-ro" -c "$WHO" 2>/dev/null)
    now
    [[ $said =~ ^(standby|primary)\ [a-z0-9-]+$ ]] || said='none -'
    note "$begin" "$moment" ro "${said% *}" - "${said#* }" -
    rest 1
  done
}

server=''
: >"$folder/journal"
for ((n = 0; n < members; n++)); do direct "$n" & done
through_ro &
through_rw
