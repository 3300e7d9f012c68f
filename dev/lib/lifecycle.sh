# shellcheck shell=bash
# `up`, `down` and what they consist of.

is_up() { [[ -e $RUN/up ]] && kubectl --request-timeout=5s get --raw /readyz >/dev/null 2>&1; }

all_machines_run() {
  local machine
  for machine in $(machines); do
    machine_pid "$machine" >/dev/null || return 1
  done
}

up() {
  need_root
  check_name
  local nodes=${NODES:-1} start=$SECONDS
  [[ $nodes =~ ^[1-$MAX_NODES]$ ]] || die "NODES must be 1 to $MAX_NODES, not '$nodes'"
  lock_cluster
  if [[ -e $RUN/up ]] && all_machines_run && is_up; then
    [[ -z ${NODES:-} || $NODES == "$(node_count)" ]] ||
      die "runs with $(node_count) node(s), not $NODES: take it down first"
    say "already up: KUBECONFIG=$RUN/kubeconfig"
    return
  fi
  "$DEV/tools"
  build_all
  # Removes what a crash or a lost machine left.
  remove_cluster
  ensure_images
  prepare_cluster "$nodes"
  step "starting the control plane" start_control_plane
  step "starting $nodes node(s)" start_nodes
  step "loading the basic images" load_basic_images
  step "waiting until all is ready" wait_ready
  touch "$RUN/up"
  say "up in $((SECONDS - start)) s: KUBECONFIG=$RUN/kubeconfig"
}

down() {
  need_root
  check_name
  local start=$SECONDS
  lock_cluster
  remove_cluster
  rm -f "$RUN.lock"
  rmdir /run/tanist /var/lib/tanist 2>/dev/null || true
  say "down in $((SECONDS - start)) s"
}

# Ends and removes the cluster, also one that is incomplete.
remove_cluster() {
  local machine n
  rm -f "$RUN/up"
  # Nodes first, and all possible ones: the state that says how many there
  # were may be lost.
  for ((n = MAX_NODES; n >= 1; n--)); do stop_machine "node$n"; done
  stop_machine control-plane
  # The kernel removes the veth pair with the namespace, a moment later.
  if [[ -e $RUN/slot ]]; then
    ip link del "$(host_link)" 2>/dev/null || true
  fi
  # No mount of a cluster is in the host's namespace; --one-file-system is for
  # the case that this is ever wrong.
  rm -rf --one-file-system "$RUN" "$STATE"
}

prepare_cluster() {
  mkdir -p "$RUN" "$STATE/programs"
  echo "$1" >"$RUN/nodes"
  take_slot
  # A copy, since the cache may be cleaned while the cluster runs.
  cp --reflink=auto "$(kubernetes_binary)" "$STATE/programs/kubernetes"
  step "making keys and certificates" make_credentials
  write_corefile
}

start_control_plane() {
  start_machine control-plane
  connect_host
  until_ok 60 kubectl get --raw /readyz || die "the API server is not ready: dev/cluster logs control-plane-kube-apiserver"
  create_objects
}

# The DNS service is bound to the CoreDNS process of the control plane.
create_objects() {
  sed -e "s/@DNS_SERVICE@/$(dns_address)/" -e "s/@COREDNS@/$(api_address)/" "$DEV/kubernetes/objects.yaml" |
    kubectl apply --server-side -f -
}

start_nodes() {
  local node
  for node in $(node_names); do start_node "$node"; done
  for node in $(node_names); do
    until_ok 30 images_of "$node" ls -q || die "containerd of $node does not answer: dev/cluster logs $node-containerd"
  done
}

start_node() {
  start_machine "$1"
  connect_node "$1"
}

nodes_ready() {
  [[ $(kubectl get nodes --no-headers | awk '$2 == "Ready"' | wc -l) == "$(node_count)" ]]
}

wait_ready() {
  until_ok "${1:-90}" nodes_ready || die "not all nodes are ready: dev/cluster status; dev/cluster logs node1-kubelet"
  until_ok 30 kubectl get serviceaccount default -n default || die "no default service account: dev/cluster logs control-plane-kube-controller-manager"
  until_ok 30 nsenter -t "$(machine_pid control-plane)" -n bash -c 'exec 3<>/dev/tcp/127.0.0.1/8181 && echo -e "GET /ready HTTP/1.0\r\n\r\n" >&3 && grep -q "200 OK" <&3' ||
    die "CoreDNS is not ready: dev/cluster logs control-plane-coredns"
}

restart_node() {
  lock_cluster
  stop_machine "$1"
  start_node "$1"
  until_ok 60 node_ready "$1" || die "$1 is not ready again: dev/cluster logs $1-kubelet"
}

node_ready() {
  [[ $(kubectl get node "$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}') == True ]]
}
