# shellcheck shell=bash
# A node's components; runs inside its machine (lib/init.sh).

run_node() {
  local program=/run/programs/kubernetes config=/run/node
  mkdir -p "$config/cni"
  until_ok 60 ip route get "$(api_address)" || die "no link to the control plane"
  echo 1 >/proc/sys/net/ipv4/ip_forward
  write_containerd_config "$config"
  write_network_config >"$config/cni/10-pods.conflist"
  write_kubelet_config >"$config/kubelet.yaml"
  printf 'nameserver %s\n' "$(dns_address)" >"$config/resolv.conf"

  supervise containerd containerd --config "$config/containerd.toml"
  until_ok 30 test -S "$(containerd_socket "$MACHINE")"
  supervise kubelet "$program" kubelet --config="$config/kubelet.yaml" --kubeconfig="$RUN/$MACHINE.kubeconfig" \
    --hostname-override="$MACHINE" --node-ip="$(node_address "$MACHINE")" \
    --node-labels="topology.kubernetes.io/zone=zone-${MACHINE#node}"
  # The kernel lets only the first network namespace set the connection
  # tracker's limits: 0 leaves them alone.
  supervise kube-proxy "$program" kube-proxy --kubeconfig="$RUN/proxy.kubeconfig" --hostname-override="$MACHINE" \
    --proxy-mode=iptables --iptables-min-sync-period=100ms --cluster-cidr="$(pods_subnet)" --oom-score-adj=0 \
    --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0s --conntrack-tcp-timeout-close-wait=0s
}

containerd_socket() { echo "$RUN/$1.sock"; }

# restrict_oom_score_adj: where a negative score may not be written, no
# sandbox starts without it. Unprivileged ping and low ports are what newer
# versions of containerd allow by default. crun instead of runc: tests are full
# of execs, and with it the same tests took a quarter less processor time.
write_containerd_config() {
  cat >"$1/containerd.toml" <<END
version = 2
[grpc]
  address = "$(containerd_socket "$MACHINE")"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "tanist.local/pause:1"
  restrict_oom_score_adj = true
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$1/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "crun"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun.options]
        BinaryName = "crun"
END
}

# Pods are routed (ptp), not bridged: a pod's traffic to its own service then
# passes kube-proxy's rules without the br_netfilter module. Leases lie in
# /run, as the pods they belong to do not outlive it either.
write_network_config() {
  cat <<END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "ptp", "mtu": 1500, "ipam": {
    "type": "host-local", "dataDir": "/run/leases",
    "ranges": [[{"subnet": "$(pod_subnet "$MACHINE")"}]],
    "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
END
}

# Nothing is evicted and no image removed for want of disk: a developer's disk
# may be rather full, and an image that is gone cannot be pulled again.
write_kubelet_config() {
  cat <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$(containerd_socket "$MACHINE")
cgroupDriver: cgroupfs
cgroupRoot: /tanist/$CLUSTER/$MACHINE
enforceNodeAllocatable: []
failSwapOn: false
failCgroupV1: false
oomScoreAdj: 0
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: false}
  x509: {clientCAFile: $RUN/pki/ca.crt}
authorization: {mode: AlwaysAllow}
clusterDomain: cluster.local
clusterDNS: ["$(dns_address)"]
resolvConf: /run/node/resolv.conf
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 8
maxPods: 110
serializeImagePulls: false
registryPullQPS: 0
eventRecordQPS: 0
kubeAPIQPS: 300
kubeAPIBurst: 600
syncFrequency: 20s
fileCheckFrequency: 20s
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
localStorageCapacityIsolation: false
evictionHard: {nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}
END
}
