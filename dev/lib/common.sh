# shellcheck shell=bash
# shellcheck disable=SC2034 # other files use these names
# Names, paths and small helpers shared by all the other files. lib/long.sh comes before it.

CLUSTER=${CLUSTER:-dev}
CACHE=${TANIST_CACHE:-$HOME/.cache/tanist}
# Small files and sockets; paths stay short because a Unix socket's may have
# at most 107 characters.
RUN=/run/tanist/$CLUSTER
# Data: etcd, images, containers, volumes, logs.
STATE=/var/lib/tanist/$CLUSTER
MAX_NODES=8
# In a machine's own /run: a folder for each component that is not to be started.
STOPPED=/run/stopped
# iptables, ip and modprobe are there, which is not on every user's PATH.
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

die() {
  echo "dev/cluster: $*" >&2
  exit 1
}

say() { echo "[$CLUSTER] $*"; }

# A long step of this cluster. Ends the script when it fails.
step() {
  local title=$1
  shift
  long "[$CLUSTER] $title" '' "$@"
}

# Repeats a command until it succeeds or the time is over.
until_ok() {
  local seconds=$1 end
  shift
  end=$((SECONDS + seconds))
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}

need_root() { ((EUID == 0)) || die "needs root, for namespaces and containers"; }

check_name() {
  [[ $CLUSTER =~ ^[a-z][a-z0-9-]{0,15}$ ]] ||
    die "CLUSTER must be a lower-case name of at most 16 letters, digits and dashes, not '$CLUSTER'"
}

# One `up` or `down` per cluster at a time. The last `down` removes the file, so
# whoever waited on the removed one has to open the new one.
lock_cluster() {
  mkdir -p /run/tanist
  while :; do
    exec 9>"$RUN.lock"
    flock 9
    [[ $RUN.lock -ef /proc/self/fd/9 ]] && return
  done
}

# The running cluster's own copy, also when the checkout would build another one now.
kubectl() { "$STATE/programs/kubernetes" kubectl --kubeconfig "$RUN/kubeconfig" "$@"; }

machines() {
  local n
  echo control-plane
  for ((n = 1; n <= $(node_count); n++)); do echo "node$n"; done
}

node_count() { cat "$RUN/nodes"; }

node_names() { machines | grep -v '^control-plane$'; }

check_node() {
  [[ -n ${1:-} ]] || die "name a node: $(node_names | tr '\n' ' ')"
  node_names | grep -x -- "$1" >/dev/null || die "cluster '$CLUSTER' has no node '$1', only: $(node_names | tr '\n' ' ')"
}
