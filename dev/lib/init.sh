#!/usr/bin/env bash
# Number 1 of a machine's namespaces: lays out its file system, then runs and
# restarts its components. Called by lib/machines.sh only:
#   init.sh tanist-machine CLUSTER MACHINE DEV
set -euo pipefail
CLUSTER=$2
MACHINE=$3
DEV=$4
# All code is read here, since the checkout may lie under a folder that is
# covered below.
for file in long common network control-plane node; do
  # shellcheck source=/dev/null
  . "$DEV/lib/$file.sh"
done

# /run and /var of its own, so that sockets, runtime state, leases, logs and
# images neither meet those of another machine nor stay when this one ends.
lay_out_files() {
  local own=$STATE/$MACHINE run=$STATE/$MACHINE/run
  mkdir -p "$run" "$own/var/log" "$own/var/lib/volumes" "$own/var/tmp" "$own/var/logs"
  ln -sfn /run "$own/var/run"
  mount -t tmpfs -o mode=755 tmpfs "$run"
  mkdir -p "$run/lock" "$run/netns" "$run/programs" "$run/tanist/$CLUSTER"
  mount --bind "$RUN" "$run/tanist/$CLUSTER"
  mount --bind "$STATE/programs" "$run/programs"
  mount --bind "$STATE/volumes" "$own/var/lib/volumes"
  mount --bind "$STATE/logs" "$own/var/logs"
  # Volumes a pod mounts with propagation need a shared root.
  mount --make-rshared /
  mount --rbind "$run" /run
  mount --rbind "$own/var" /var
  # crun refuses a host that has both versions of control groups: the second is hidden here.
  if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
}

# supervise NAME COMMAND...: keeps a component running, as systemd would, but
# not while `dev/cluster stop` has left its mark.
supervise() {
  local name=$1
  shift
  (
    while :; do
      "$@" || echo "--- $name ended with status $?; starting it again"
      sleep 1
      while [[ -e $STOPPED/$name ]]; do sleep 0.2; done
    done
  ) >>"/var/logs/$MACHINE-$name.log" 2>&1 </dev/null &
}

# Components in Go collect garbage less often while they are small: where many tests run at once, the processors are what they lack.
export GOGC=400 GOMEMLIMIT=1GiB

lay_out_files
cd /
hostname "$MACHINE"
ip link set lo up
case $MACHINE in
  control-plane) run_control_plane ;;
  *) run_node ;;
esac
# Bash reaps the orphans that fall to number 1 while it waits.
while :; do
  sleep 3600 &
  wait $! || true
done
