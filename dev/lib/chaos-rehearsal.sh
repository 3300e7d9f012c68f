# shellcheck shell=bash
# shellcheck disable=SC2154 # other files set these
# `dev/chaos --rehearse`: clients and judge against real servers, without Kubernetes and without an operator. What a broken operator might do is done by hand: the
# wrong standby leads, and then the old primary comes back beside it. Three network and process namespaces stand for nodes; a minute, as root.

MACHINES=()
rehearse() {
  local loss
  tools=$work/tools
  build_machines
  build_servers
  rehearse_clients
  sleep 6
  finds "all is well" 1 "$(now)" -missing -illegal_history -two_acknowledge -two_writable

  # The first standby gets nothing for a while, and then leads.
  in_machine 2 iptables -w -I INPUT -s 10.99.0.1 -p tcp -j DROP
  sleep 4
  loss=$(now)
  in_machine 1 pkill -KILL -o -f 'postgres -D'
  sleep 1
  in_machine 2 iptables -w -F
  violates_nothing no_difference "$(journal)" "$loss" pg-1 pg-2
  ask_server 2 "SELECT pg_promote(true)" "ALTER SYSTEM SET synchronous_standby_names = ''" "SELECT pg_reload_conf()" >/dev/null
  sleep 5
  finds "the wrong standby leads" 2 "$loss" +missing +illegal_history +others_lead -two_acknowledge -two_writable

  # The second standby still follows it: so it can acknowledge.
  start_server 1
  sleep 6
  finds "two lead, and both acknowledge" 2 "$loss" +two_acknowledge +two_writable
}

# Every check with a + finds something, every one with a - nothing.
finds() { # TITLE MEMBER SINCE CHECK...
  local title=$1 check found said='' since=$3
  # What is acknowledged later need not be there.
  journal >/dev/null
  ask_server "$2" "SELECT client || '|' || id FROM chaos" >"$work/rows"
  shift 3
  for check; do
    : >"$work/history.told"
    case ${check:1} in
      missing) found=$(missing "$work/journal" "$work/rows") ;;
      illegal_history) found=$(illegal_history "$work/journal" "$work/history.told") ;;
      others_lead) found=$(others_lead "$work/journal" "$since" pg-1) ;;
      *) found=$("${check:1}" "$work/journal") ;;
    esac
    [[ ${check:0:1} == + && -n $found || ${check:0:1} == - && -z $found ]] || fail "$title: ${check:1} says '$(sed -n 1p <<<"$found")'"
    said+=" ${check:1} $(grep -c . <<<"$found" || true)"
  done
  echo "$title:$said"
}
violates_nothing() {
  local found; found=$("$@")
  [[ -z $found ]] || fail "$found"
}

in_machine() { # NUMBER COMMAND...
  local pid=${MACHINES[$1]}
  shift
  nsenter -t "$pid" -m -n -p "$@"
}
# A machine is number 1 of its own process, mount and network namespaces, and a root file system for the server.
# It buries those whose parents died: a dead server that is still listed counts as running.
# shellcheck disable=SC2016 # the machine's shell
MACHINE='root=$1/root$2 tools=$1/tools data=$1/data$2
  mount --bind "$tools" "$root" && mount -t tmpfs tmpfs "$root/run" && mkdir "$root/run/postgresql"
  mount -t proc proc "$root/proc" && mount -t tmpfs tmpfs "$root/dev" && mkdir -m 1777 "$root/dev/shm"
  for device in null zero urandom random; do touch "$root/dev/$device" && mount --bind "/dev/$device" "$root/dev/$device"; done
  mount --bind "$data" "$root/mnt" && mount --bind "$1/hostname$2" "$root/etc/hostname"
  chown 999:999 "$root/run/postgresql" "$root/mnt"
  while sleep 1; do :; done'
build_machines() {
  local n parent
  mkdir "$tools"
  chmod 755 "$work" "$tools"
  tar -xf "$(examples/postgres/image --rootfs)" -C "$tools" --exclude='./dev/*' --exclude='dev/*'
  touch "$tools/etc/hostname"
  for n in 0 1 2 3; do
    mkdir "$work/root$n" "$work/data$n"
    echo "pg-$n" >"$work/hostname$n"
    unshare --net --pid --mount --fork --kill-child=SIGKILL --mount-proc bash -c "$MACHINE" machine "$work" "$n" 2>>"$work/watches.log" &
    parent=$!
    within 5 pgrep -P "$parent" >/dev/null || fail "machine $n did not start"
    MACHINES[n]=$(pgrep -P "$parent")
  done
  # The first only has the bridge.
  in_machine 0 ip link add name machines type bridge
  in_machine 0 ip link set machines up
  for n in 1 2 3; do
    ip link add "m$n" netns "${MACHINES[0]}" type veth peer name eth0 netns "${MACHINES[n]}"
    in_machine 0 ip link set "m$n" master machines up
    in_machine "$n" ip addr add "10.99.0.$n/24" dev eth0
    in_machine "$n" ip link set eth0 up
    in_machine "$n" ip link set lo up
  done
}

# Number 1 takes all that runs there with it.
end_machines() { ((${#MACHINES[@]} == 0)) || kill -KILL "${MACHINES[@]}" 2>/dev/null || true; }

as_server() { # NUMBER COMMAND...
  local n=$1
  shift
  in_machine "$n" chroot --userspec=999:999 "$work/root$n" env LC_ALL=C PATH=/usr/lib/postgresql/15/bin:/usr/bin:/bin "$@"
}
ask_server() { # NUMBER SQL...
  local n=$1 sql statements=()
  shift
  for sql; do statements+=(-c "$sql"); done
  as_server "$n" psql -X -q -A -t -h /run/postgresql -U postgres "${statements[@]}"
}
start_server() { # NUMBER
  as_server "$1" pg_ctl start -s -w -D /mnt/data -l /mnt/log </dev/null >/dev/null 2>&1
}
build_servers() {
  local n table
  as_server 1 initdb -D /mnt/data -U postgres --auth=trust >/dev/null
  as_server 1 openssl req -new -x509 -newkey rsa:2048 -nodes -subj /CN=x -keyout /mnt/data/server.key -out /mnt/data/server.crt -days 2 2>/dev/null
  as_server 1 chmod 600 /mnt/data/server.key
  cat >>"$work/data1/data/postgresql.conf" <<'EOF_CONF'
ssl = on
unix_socket_directories = '/run/postgresql'
listen_addresses = '*'
synchronous_standby_names = 'ANY 1 (*)'
wal_retrieve_retry_interval = 1s
EOF_CONF
  printf '%s\n' 'host all all 10.99.0.0/24 trust' 'host replication all 10.99.0.0/24 trust' >>"$work/data1/data/pg_hba.conf"
  start_server 1
  for n in 2 3; do
    as_server "$n" pg_basebackup -h 10.99.0.1 -U postgres -D /mnt/data -R -X stream
    as_server "$n" chmod 700 /mnt/data
    start_server "$n"
  done
  for table in 'chaos (client text, id text, PRIMARY KEY (client, id))' 'registers (key text PRIMARY KEY, value text)' 'lists (key text PRIMARY KEY, value text)'; do
    ask_server 1 "CREATE TABLE $table"
  done
}
rehearse_clients() {
  local n script
  script=$(<dev/lib/chaos-client.sh)
  : >"$work/journal.raw"
  for n in 1 2 3; do
    set -m
    in_machine "$n" bash -c "$script" chaos-client "$tools" "beside:beside-$n" "look:look-$n" "rw:rw-$n:10.99.0.1" >>"$work/journal.raw" 2>>"$work/watches.log" </dev/null &
    WATCHERS+=($!)
    set +m
  done
}
