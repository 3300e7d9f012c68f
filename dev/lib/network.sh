# shellcheck shell=bash
# Addresses. A cluster takes one /20 of the host's private space:
#   BASE+0.0/24   machines: .1 control plane (its bridge), .10+n node n, .254 host
#   BASE+4.0/22   services, of which the first is the API server's
#   BASE+8.0/21   pods, a /24 for each node

SLOTS=32

# The address OFFSET (in units of /24) and HOST part within the cluster's /20.
address() {
  local slot offset=$1 host=$2
  slot=$(cat "$RUN/slot")
  echo "10.$((201 + slot / 16)).$((slot % 16 * 16 + offset)).$host"
}

api_address() { address 0 1; }
host_address() { address 0 254; }
node_address() { address 0 $((10 + ${1#node})); }
pod_subnet() { echo "$(address $((7 + ${1#node})) 0)/24"; }
service_subnet() { echo "$(address 4 0)/22"; }
api_service_address() { address 4 1; }
dns_address() { address 4 10; }
pods_subnet() { echo "$(address 8 0)/21"; }
host_link() { echo "tanist$(cat "$RUN/slot")"; }

slot_taken() {
  local slot=$1 other subnet
  for other in /run/tanist/*/slot; do
    [[ -e $other && $(cat "$other") == "$slot" ]] && return 0
  done
  # In use by the host for something else, wholly or in part.
  subnet=10.$((201 + slot / 16)).$((slot % 16 * 16)).0/20
  [[ -n $(ip -4 route show root "$subnet") ]] || ip link show "tanist$slot" >/dev/null 2>&1
}

# Under a lock of its own: two clusters may come up at the same time.
take_slot() {
  local slot
  (
    flock 8
    for ((slot = 0; slot < SLOTS; slot++)); do
      if ! slot_taken "$slot"; then
        echo "$slot" >"$RUN/slot"
        exit 0
      fi
    done
    exit 1
  ) 8</run/tanist || die "no free /20 in 10.201.0.0/16 and 10.202.0.0/16: take down a cluster that is not in use"
}

in_machine_net() {
  local pid
  pid=$(machine_pid "$1")
  shift
  nsenter -t "$pid" -n "$@"
}

# The host joins the machines' network, so that tests reach API, pods and
# services from outside.
connect_host() {
  local link pid n
  link=$(host_link)
  pid=$(machine_pid control-plane)
  in_machine_net control-plane ip link add machines type bridge
  in_machine_net control-plane ip addr add "$(api_address)/24" dev machines
  in_machine_net control-plane ip link set machines up
  ip link add "$link" type veth peer name host netns "$pid"
  in_machine_net control-plane ip link set host master machines up
  ip addr add "$(host_address)/24" dev "$link"
  ip link set "$link" up
  for n in $(node_names); do
    ip route add "$(pod_subnet "$n")" via "$(node_address "$n")" dev "$link"
    in_machine_net control-plane ip route add "$(pod_subnet "$n")" via "$(node_address "$n")"
  done
  ip route add "$(service_subnet)" via "$(node_address node1)" dev "$link"
}

connect_node() {
  local node=$1 other
  # The kernel removes a dead node's link a moment after its processes.
  in_machine_net control-plane ip link del "$node" 2>/dev/null || true
  ip link add "$node" netns "$(machine_pid control-plane)" type veth peer name eth0 netns "$(machine_pid "$node")"
  in_machine_net control-plane ip link set "$node" master machines up
  in_machine_net "$node" ip addr add "$(node_address "$node")/24" dev eth0
  in_machine_net "$node" ip link set eth0 up
  # A program on the node itself needs some route to a service before
  # kube-proxy's rules rewrite the address. There is no default route, so that
  # whatever leads out of the cluster fails at once.
  in_machine_net "$node" ip route add "$(service_subnet)" via "$(api_address)"
  for other in $(node_names); do
    [[ $other == "$node" ]] ||
      in_machine_net "$node" ip route add "$(pod_subnet "$other")" via "$(node_address "$other")"
  done
}

# A partition: the node's only link goes down, its processes go on running.
partition_node() { in_machine_net control-plane ip link set "$1" down; }
heal_node() { in_machine_net control-plane ip link set "$1" up; }
