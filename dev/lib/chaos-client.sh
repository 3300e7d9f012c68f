#!/bin/bash
# The clients of dev/chaos that run on one node: in its network, by its routes, and gone when it loses its power. Each client is a loop of its own and
# writes what it learned to the standard output, one line for each operation:
#
#   BEGIN END CLIENT OPERATION KEY VALUE OUTCOME MEMBER TIMELINE      moments in microseconds; what does not apply is -
#
#   insert KEY VALUE   a row of its own, never touched again: CLIENT VALUE
#   write, read        the register KEY; append, list: the list KEY. Keys are shared by all clients
#   meet PORT primary  a connection reached a primary, or a `standby`, who knows it by that port; `none`: nobody answered, and no port
#   look POSITION STATE   what the server of this node is: `writable`, `readonly`, `recovery`, `silent`, or `none`, no server runs
#
# OUTCOME is ok, fail (it had no effect and never will) or unknown (it may have had one, or have it later). A write has a line before it is sent, too, with
# the outcome begun: a client may die with its node.
#
# A psql that lives on costs next to nothing, a new one some 30 ms of processor. So sessions are kept: through a Service for some
# operations, since each new connection is a question of routing, too; to a member until it breaks.
#
# usage: chaos-client.sh TOOLS CLIENT...      TOOLS: a root file system with psql
#   rw:NAME:HOST      through the Service of the primary
#   ro:NAME:HOST      through the one of the secondaries
#   direct:NAME:HOST  to a member by its own name
#   beside:NAME       to the member on this node, from inside its pod's network: no link is needed
#   look:NAME         only looks at that member, all the time
#   prefer:NAME       waits for standbys only while there are some, as an administrator's script may do (dev/chaos --setting preferred)
set -u
export LC_ALL=C
trap '' PIPE
# Refusals by standbys are what is asked for here, ten a second: nothing for their logs.
export PGOPTIONS='-c log_min_messages=panic' PGUSER=postgres PGDATABASE=postgres PGSSLMODE=require PGCONNECT_TIMEOUT=2
tools=$1
shift
MEMBER="trim(both E'\\n' from pg_read_file('/etc/hostname'))"
# Fails in recovery: who has no timeline of its own acknowledges nothing and answers no read.
PLACE="$MEMBER || ' ' || ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int"
exec {never}<> <(:)

now() { moment=${EPOCHREALTIME/[.,]/}; }
rest() { read -r -t "$1" -u "$never"; } # a sleep that starts no process
# One write of a line is never torn apart by another.
note() { printf '%s %s %s %s %s %s %s %s %s\n' "$@"; }

connect() { # HOST [NETWORK'S PROCESS]
  local -a place=()
  [[ -z ${2:-} ]] || place=(nsenter -t "$2" -n)
  # It waits for a line first: the shell forgets the ends of one that has ended already, before they could be kept.
  coproc SERVER { read -r; exec "${place[@]}" chroot "$tools" /usr/lib/postgresql/15/bin/psql -X -w -q -A -t "host=$1" 2>&1; }
  # The shell closes its own ends as soon as psql has ended, also those with something left to read.
  exec {to}>&"${SERVER[1]}" {from}<&"${SERVER[0]}"
  server=$SERVER_PID
  fresh=yes
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
    if [[ $line == . ]]; then fresh='' && return; fi
    answer+=$line
  done
  disconnect
  return 1
}

# Sets outcome, member and timeline, and value to what was read. A warning beside an answer may say that the wait for the standby was cut off: that is
# no acknowledgement. Nothing was executed if no connection came about, or if the statement itself was refused.
judge() {
  outcome=unknown member=- timeline=-
  if [[ $answer =~ ^ok\ ([^ ]+)\ ([a-z0-9-]+)\ ([0-9]+)$ ]]; then
    outcome=ok value=${BASH_REMATCH[1]} member=${BASH_REMATCH[2]} timeline=${BASH_REMATCH[3]}
  elif [[ $answer == 'psql: error: connection to server'* && -n $fresh ]]; then
    outcome=fail
  elif [[ $answer == *ERROR:* && $answer != *WARNING:* && $answer != *FATAL:* ]]; then
    outcome=fail
  fi
}

# One operation on KEY. False: the session is over.
operate() { # CLIENT OPERATION KEY
  local begin sql value=- alive=0 outcome member timeline
  now
  begin=$moment
  case $2 in insert | write | append)
    value=$1.$begin
    note "$begin" "$begin" "$1" "$2" "$3" "$value" begun - -
    ;;
  esac
  case $2 in
    insert) sql="INSERT INTO chaos VALUES ('$3', '$value') RETURNING 'ok ' || id || ' ' || $PLACE" ;;
    write) sql="INSERT INTO registers AS r VALUES ('$3', '$value') ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value
      RETURNING 'ok ' || '$value ' || $PLACE" ;;
    append) sql="INSERT INTO lists AS l VALUES ('$3', '$value') ON CONFLICT (key) DO UPDATE SET value = l.value || ',' || EXCLUDED.value
      RETURNING 'ok ' || '$value ' || $PLACE" ;;
    read) sql="SELECT 'ok ' || coalesce((SELECT value FROM registers WHERE key = '$3'), 'nil') || ' ' || $PLACE" ;;
    list) sql="SELECT 'ok ' || coalesce((SELECT value FROM lists WHERE key = '$3'), 'nil') || ' ' || $PLACE" ;;
  esac
  ask "${sql//$'\n'/ }" || alive=1
  judge
  now
  note "$begin" "$moment" "$1" "$2" "$3" "$value" "$outcome" "$member" "$timeline"
  return $alive
}

# The next operation of a client, in turn. A key is used for five seconds; later on it is read only, by some.
next() { # CLIENT
  local bucket=$((EPOCHSECONDS / 5))
  local earlier=$((bucket - 1 - RANDOM % 8))
  turn=$(((turn + 1) % 7))
  case $turn in
    0) operate "$1" insert "$1" ;;
    1) operate "$1" write "r$bucket" ;;
    2) operate "$1" append "l$bucket" ;;
    3) operate "$1" read "r$bucket" ;;
    4) operate "$1" insert "$1" ;;
    5) operate "$1" list "l$bucket" ;;
    6) if ((RANDOM % 2)); then operate "$1" read "r$earlier"; else operate "$1" list "l$earlier"; fi ;;
  esac
}

# Whom a new connection reached: sets met.
meet() { # CLIENT
  local begin member=- port=-
  now
  begin=$moment met=none
  if ask "SELECT CASE WHEN pg_is_in_recovery() THEN 'standby ' ELSE 'primary ' END || $MEMBER || ' ' || inet_client_port()" &&
    [[ $answer =~ ^(standby|primary)\ ([a-z0-9-]+)\ ([0-9]+)$ ]]; then
    met=${BASH_REMATCH[1]} member=${BASH_REMATCH[2]} port=${BASH_REMATCH[3]}
  fi
  now
  note "$begin" "$moment" "$1" meet "$port" "$met" ok "$member" -
}

through_rw() { # CLIENT HOST
  local turn=0
  while :; do
    connect "$2"
    meet "$1"
    if [[ $met == primary ]]; then
      for _ in {1..12}; do
        next "$1" || break
        rest 0.08
      done
    fi
    disconnect
    rest 0.05
    [[ $met == primary ]] || rest 0.2
  done
}

through_ro() { # CLIENT HOST
  while :; do
    connect "$2"
    meet "$1"
    disconnect
    rest 1
  done
}

direct() { # CLIENT HOST
  local turn=0
  while :; do
    connect "$2"
    while next "$1"; do rest 0.25; done
    disconnect
    rest 0.3
  done
}

# Sets pid to the member's server on this node, as it is seen without anybody's help.
find_server() {
  local file line
  for file in /proc/[0-9]*/cmdline; do
    line=()
    { mapfile -d '' -t line <"$file"; } 2>/dev/null
    if [[ ${line[0]-} == */postgres && ${line[1]-} == -D ]]; then
      pid=${file//[!0-9]/}
      return
    fi
  done
  return 1
}

beside() { # CLIENT
  local turn=0 pid
  while :; do
    if find_server; then
      connect 127.0.0.1 "$pid"
      while next "$1"; do rest 0.15; done
      disconnect
    fi
    rest 0.4
  done
}

LOOK="SELECT CASE WHEN pg_is_in_recovery() THEN 'recovery' WHEN current_setting('transaction_read_only')::boolean THEN 'readonly' ELSE 'writable' END
  || ' ' || CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) ELSE pg_current_wal_flush_lsn() END - '0/0'
  || ' ' || $MEMBER || ' ' || CASE WHEN pg_is_in_recovery() THEN '-'
    ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::text END"
LOOK=${LOOK//$'\n'/ }
look() { # CLIENT
  local pid begin state position member timeline alive
  while :; do
    if find_server; then
      connect 127.0.0.1 "$pid"
      alive=yes
      while [[ -n $alive ]]; do
        now
        begin=$moment state=silent position=- member=- timeline=-
        ask "$LOOK" || alive=''
        if [[ $answer =~ ^(recovery|readonly|writable)\ ([0-9]+)\ ([a-z0-9-]+)\ ([0-9]+|-)$ ]]; then
          state=${BASH_REMATCH[1]} position=${BASH_REMATCH[2]} member=${BASH_REMATCH[3]} timeline=${BASH_REMATCH[4]}
        fi
        now
        note "$begin" "$moment" "$1" look "$position" "$state" ok "$member" "$timeline"
        rest 0.2
      done
      disconnect
    else
      now
      note "$moment" "$moment" "$1" look - none ok - -
    fi
    rest 0.3
  done
}

PREFER="SELECT CASE WHEN pg_is_in_recovery() THEN 'recovery' WHEN EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')
  THEN 'ANY 1 (*)' ELSE '' END || '|' || current_setting('synchronous_standby_names')"
PREFER=${PREFER//$'\n'/ }
# What others do to go on writing without standbys: each second a primary waits for one if one streams, else for none.
prefer() { # CLIENT
  local pid name
  while :; do
    if find_server; then
      connect 127.0.0.1 "$pid"
      while ask "$PREFER"; do
        name=${answer%%|*}
        if [[ $name != recovery && $answer == *'|'* && $name != "${answer#*|}" ]]; then
          ask "ALTER SYSTEM SET synchronous_standby_names = '$name'" && ask "SELECT pg_reload_conf()"
          now
          if [[ -n $name ]]; then name=one; else name=none; fi
          note "$moment" "$moment" "$1" prefer - "$name" ok - -
        fi
        [[ -n $server ]] || break
        rest 1
      done
      disconnect
    fi
    rest 1
  done
}

server='' fresh='' met='' answer=''
for client; do
  IFS=: read -r kind name host <<<"$client"
  case $kind in
    rw) through_rw "$name" "$host" & ;;
    ro) through_ro "$name" "$host" & ;;
    direct) direct "$name" "$host" & ;;
    beside | look | prefer) "$kind" "$name" & ;;
    *) echo "chaos-client: what is '$client'?" >&2 && exit 2 ;;
  esac
done
wait
