# shellcheck shell=bash
# Builds the two programs of the cluster from Go modules into a cache outside
# the checkout, so that a fresh clone on a warm machine builds nothing.

COREDNS_VERSION=v1.12.4

# The key covers all that decides the binary's content.
kubernetes_key() {
  (cd "$DEV/kubernetes" && cat go.mod go.sum ./*.go) | sha256sum | cut -c1-16
}

kubernetes_binary() { echo "$CACHE/bin/kubernetes-$(kubernetes_key)"; }
coredns_binary() { echo "$CACHE/bin/coredns-$COREDNS_VERSION"; }

need_go() {
  command -v go >/dev/null ||
    die "building Kubernetes needs Go 1.24 or later: install it and put it on PATH"
}

build_kubernetes() {
  local out=$1 version minor package=k8s.io/component-base/version
  version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$DEV/kubernetes/go.mod")
  minor=${version#v1.}
  minor=${minor%%.*}
  # Without the version clients see v0.0.0 and switch features off.
  (cd "$DEV/kubernetes" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$out.part" \
    -ldflags "-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor" .)
  mv "$out.part" "$out"
}

build_coredns() {
  local out=$1
  mkdir -p "$out.dir"
  GOBIN=$out.dir CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" "github.com/coredns/coredns@$COREDNS_VERSION"
  mv "$out.dir/coredns" "$out"
  rmdir "$out.dir"
}

# One build at a time on a machine: a second cluster started meanwhile waits
# and then finds the result.
build_all() {
  local kubernetes coredns
  kubernetes=$(kubernetes_binary)
  coredns=$(coredns_binary)
  if [[ ! -x $kubernetes || ! -x $coredns ]]; then
    need_go
    mkdir -p "$CACHE/bin" || die "cannot write to the cache $CACHE: set TANIST_CACHE to a folder that can be written"
    (
      flock -n 9 || { say "waiting for a build that another cluster started" && flock 9; }
      [[ -x $kubernetes ]] || step "building Kubernetes (some 5 minutes the first time)" build_kubernetes "$kubernetes"
      [[ -x $coredns ]] || step "building CoreDNS (some 2 minutes the first time)" build_coredns "$coredns"
    ) 9>"$CACHE/bin/.lock"
  fi
}
