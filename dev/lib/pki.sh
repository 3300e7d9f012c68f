# shellcheck shell=bash
# Keys, certificates and kubeconfig files of one cluster, made anew at each
# `up`. Client certificates name a user (CN) and a group (O), to which RBAC's
# built-in roles are bound.

make_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

make_authority() {
  make_key ca.key
  openssl req -x509 -new -key ca.key -days 3650 -subj "/CN=tanist-$CLUSTER" -out ca.crt
}

# make_certificate FILE SUBJECT [SUBJECT_ALT_NAMES]
make_certificate() {
  local file=$1 subject=$2 names=${3:-} usage=clientAuth
  [[ -z $names ]] || usage=serverAuth
  make_key "$file.key"
  openssl req -new -key "$file.key" -subj "$subject" -out "$file.csr"
  openssl x509 -req -in "$file.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -out "$file.crt" \
    -extfile <(
      echo "extendedKeyUsage=$usage"
      [[ -z $names ]] || echo "subjectAltName=$names"
    )
  rm "$file.csr"
}

# write_kubeconfig OUT CERTIFICATE; self-contained, so that it may be copied.
write_kubeconfig() {
  cat >"$1" <<END
apiVersion: v1
kind: Config
clusters:
- name: tanist-$CLUSTER
  cluster:
    server: https://$(api_address):6443
    certificate-authority-data: $(base64 -w0 ca.crt)
users:
- name: $2
  user:
    client-certificate-data: $(base64 -w0 "$2.crt")
    client-key-data: $(base64 -w0 "$2.key")
contexts:
- name: tanist-$CLUSTER
  context: {cluster: tanist-$CLUSTER, user: $2}
current-context: tanist-$CLUSTER
END
}

make_credentials() {
  local node name names
  (
    umask 077
    mkdir -p "$RUN/pki"
    cd "$RUN/pki" || exit
    make_authority
    make_key service-accounts.key
    names=IP:$(api_address),IP:$(api_service_address),IP:127.0.0.1,DNS:localhost
    for name in kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local; do
      names+=,DNS:$name
    done
    make_certificate apiserver /CN=kube-apiserver "$names"
    make_certificate admin /O=system:masters/CN=admin
    write_kubeconfig "$RUN/kubeconfig" admin
    make_certificate controller-manager /CN=system:kube-controller-manager
    write_kubeconfig "$RUN/controller-manager.kubeconfig" controller-manager
    make_certificate scheduler /CN=system:kube-scheduler
    write_kubeconfig "$RUN/scheduler.kubeconfig" scheduler
    make_certificate proxy /CN=system:kube-proxy
    write_kubeconfig "$RUN/proxy.kubeconfig" proxy
    for node in $(node_names); do
      make_certificate "$node" "/O=system:nodes/CN=system:node:$node"
      write_kubeconfig "$RUN/$node.kubeconfig" "$node"
    done
  )
}
