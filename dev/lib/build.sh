# shellcheck shell=bash
# Builds the one program of the cluster from Go modules into a cache outside
# the checkout, so that a fresh clone on a warm machine builds nothing.

# The key covers everything that the binary's content depends on.
kubernetes_key() {
  (cd "$DEV/kubernetes" && cat go.mod go.sum ./*.go) | sha256sum | cut -c1-16
}

kubernetes_binary() { echo "$CACHE/bin/kubernetes-$(kubernetes_key)"; }

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

# One build at a time on a machine: a second cluster started meanwhile waits
# and then finds the result.
build_all() {
  local kubernetes
  kubernetes=$(kubernetes_binary)
  [[ ! -x $kubernetes ]] || return 0
  command -v go >/dev/null || die "building Kubernetes needs Go: dev/tools says which"
  mkdir -p "$CACHE/bin" || die "cannot write to the cache $CACHE: set TANIST_CACHE to a folder that can be written"
  (
    flock -n 9 || { say "waiting for a build that another cluster started" && flock 9; }
    [[ -x $kubernetes ]] || long "building Kubernetes" "some 5 minutes the first time on two cores" build_kubernetes "$kubernetes"
  ) 9>"$CACHE/bin/.lock"
}
