# shellcheck shell=bash
# A machine (the control plane or a node) is one process, lib/init.sh, that is
# number 1 of its own process, mount and network namespaces. When it dies the
# kernel ends every process, mount and link in them, containers included. So
# `down` leaves nothing behind, even after a crash, and a node can lose its power.

# Process numbers of all that runs as init.sh of a cluster's machine, its
# `unshare` parent included. The marker in the arguments makes them ours.
machine_processes() {
  pgrep -f -- "^(unshare|bash) .*/init\.sh tanist-machine $CLUSTER $1 /" || true
}

# The machine's number 1, as the host sees it.
machine_pid() {
  local pid
  for pid in $(machine_processes "$1"); do
    # NSpid lists the number in every nested namespace, the innermost last.
    if awk '/^NSpid:/ { found = NF > 2 && $NF == 1 } END { exit !found }' "/proc/$pid/status" 2>/dev/null; then
      echo "$pid"
      return
    fi
  done
  return 1
}

start_machine() {
  local machine=$1
  mkdir -p "$STATE/$machine" "$STATE/logs" "$STATE/volumes"
  make_cgroups "$machine"
  # The lock must not live on in a daemon: 9>&-.
  setsid unshare --net --mount --pid --uts --fork --kill-child=SIGKILL --mount-proc --propagation private \
    bash "$DEV/lib/init.sh" tanist-machine "$CLUSTER" "$machine" "$DEV" \
    </dev/null >>"$STATE/logs/$machine-init.log" 2>&1 9>&- &
  disown
  until_ok 10 machine_pid "$machine" || die "machine '$machine' did not start: see $STATE/logs/$machine-init.log"
}

stop_machine() {
  local pids
  # When its number 1 ends, all other processes of its namespace end, too.
  pids=$(machine_processes "$1")
  # shellcheck disable=SC2086 # a list of numbers
  [[ -z $pids ]] || kill -9 $pids 2>/dev/null || true
  until_ok 20 machine_gone "$1" || die "processes of '$1' do not end: $(machine_processes "$1" | tr '\n' ' ')"
  remove_cgroups "$1"
}

machine_gone() { [[ -z $(machine_processes "$1") ]]; }

# Every mounted cgroup hierarchy: each controller's for version 1, one for 2.
cgroup_roots() {
  awk '$3 ~ /^cgroup2?$/ { print $2 }' /proc/self/mounts | sort -u
}

# Each kubelet needs a cgroup of its own, else it cleans up the others' pods.
make_cgroups() {
  local root part path file controllers
  for root in $(cgroup_roots); do
    path=$root
    for part in tanist "$CLUSTER" "$1"; do
      # Version 2 wants controllers handed down, unless it only stands beside
      # version 1, whose hierarchies then hold the controllers.
      if [[ -e $path/cgroup.subtree_control && $root == /sys/fs/cgroup ]]; then
        controllers=$(sed -E 's/(\w+)/+\1/g' "$path/cgroup.controllers")
        [[ -z $controllers ]] || echo "$controllers" >"$path/cgroup.subtree_control" 2>/dev/null || true
      fi
      mkdir -p "$path/$part"
      # Version 1 gives a new cpuset no CPUs, and then nothing may join it.
      for file in cpuset.cpus cpuset.mems; do
        if [[ -e $path/$file && ! -e $path/cgroup.subtree_control ]]; then
          cat "$path/$file" >"$path/$part/$file"
        fi
      done
      path=$path/$part
    done
  done
}

remove_cgroups() {
  local root path
  for root in $(cgroup_roots); do
    path=$root/tanist/$CLUSTER/$1
    [[ -d $path ]] || continue
    # A cgroup stays busy until the kernel has reaped its last process.
    until_ok 10 remove_cgroup_tree "$path" || die "cgroup $path cannot be removed"
    rmdir "$root/tanist/$CLUSTER" "$root/tanist" 2>/dev/null || true
  done
}

remove_cgroup_tree() {
  find "$1" -depth -type d -exec rmdir {} + || true
  [[ ! -d $1 ]]
}
