# shellcheck shell=bash
# The control plane's components; runs inside its machine (lib/init.sh).

run_control_plane() {
  local program=/run/programs/kubernetes pki=$RUN/pki api
  api=$(api_address)

  supervise etcd "$program" etcd --name=etcd --data-dir=/var/lib/etcd --unsafe-no-fsync --log-level=warn \
    --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 \
    --listen-peer-urls=http://127.0.0.1:2380 --initial-advertise-peer-urls=http://127.0.0.1:2380 \
    --initial-cluster=etcd=http://127.0.0.1:2380

  until_ok 30 ip link show machines

  # Endpoint routing: no kube-proxy runs here, so webhooks are called at their
  # pods' addresses instead of their service's.
  supervise kube-apiserver "$program" kube-apiserver --etcd-servers=http://127.0.0.1:2379 \
    --bind-address=0.0.0.0 --secure-port=6443 --advertise-address="$api" \
    --service-cluster-ip-range="$(service_subnet)" --enable-aggregator-routing=true \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
    --client-ca-file="$pki/ca.crt" --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --kubelet-client-certificate="$pki/admin.crt" --kubelet-client-key="$pki/admin.key" \
    --kubelet-preferred-address-types=InternalIP \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$pki/service-accounts.key" \
    --service-account-signing-key-file="$pki/service-accounts.key" \
    --max-requests-inflight=2000 --max-mutating-requests-inflight=1000 --profiling=false

  supervise kube-controller-manager "$program" kube-controller-manager \
    --kubeconfig="$RUN/controller-manager.kubeconfig" --use-service-account-credentials=true \
    --service-account-private-key-file="$pki/service-accounts.key" --root-ca-file="$pki/ca.crt" \
    --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
    --leader-elect=false --kube-api-qps=300 --kube-api-burst=600 \
    --node-monitor-period=1s --node-monitor-grace-period=10s \
    --concurrent-statefulset-syncs=20 --concurrent-endpoint-syncs=10 --concurrent-namespace-syncs=20 \
    --pvclaimbinder-sync-period=2s --profiling=false

  supervise kube-scheduler "$program" kube-scheduler --kubeconfig="$RUN/scheduler.kubeconfig" \
    --leader-elect=false --kube-api-qps=300 --kube-api-burst=600 --profiling=false

  supervise coredns /run/programs/kubernetes coredns -conf "$RUN/Corefile"

  supervise provisioner "$program" provisioner --kubeconfig="$RUN/kubeconfig" --directory=/var/lib/volumes
}

# No cache and short lifetimes: tests look up records that have just changed.
# There is no server to forward to: names outside the cluster do not exist. The
# answer has to say so: a resolver that gets an error would try again and again.
write_corefile() {
  cat >"$RUN/Corefile" <<END
cluster.local:53 in-addr.arpa:53 {
  bind $(api_address)
  errors
  health 127.0.0.1:8080
  ready 127.0.0.1:8181
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $RUN/kubeconfig
    ttl 1
  }
}
.:53 {
  bind $(api_address)
  template ANY ANY {
    rcode NXDOMAIN
  }
}
END
}
