# shellcheck shell=bash
# `dev/cluster test`: does the cluster do what our tests rely on? Works for any
# cluster, CLUSTER=current included.

TEST_NAMESPACE=tanist-selftest

# The administrator's kubectl, within the test's namespace.
kube() {
  if [[ $CLUSTER == current ]]; then
    current_kubectl -n "$TEST_NAMESPACE" "$@"
  else
    kubectl -n "$TEST_NAMESPACE" "$@"
  fi
}

# check TITLE COMMAND...: failures are counted, so that one run shows all.
check() {
  local title=$1 start=$SECONDS output status
  shift
  # Not as a condition, which would switch errexit off inside the function.
  set +e
  output=$(
    set -e
    "$@" 2>&1
  )
  status=$?
  set -e
  if ((status == 0)); then
    say "ok: $title ($((SECONDS - start)) s)"
  else
    say "FAILED: $title (status $status)"
    echo "    ${output//$'\n'/$'\n'    }"
    failed=$((failed + 1))
  fi
}

test_nodes() { kube wait --for=condition=Ready node --all --timeout=30s; }

test_set() { kube rollout status statefulset/web --timeout=90s; }

test_claims() {
  local bound
  bound=$(kube get pvc -o jsonpath='{range .items[*]}{.status.phase}{"\n"}{end}' | grep -c '^Bound$')
  ((bound == 3)) || { echo "$bound of 3 claims are bound" && return 1; }
  # By a user who is not root: the volume must have taken the pod's fsGroup.
  kube exec web-0 -- sh -c 'echo kept >/data/file && grep -q kept /data/file'
}

# contains TEXT COMMAND...: its output, whatever its status, holds the text. The
# whole output is taken first: `grep -q` would end a pipe early.
contains() {
  local text=$1 output
  shift
  output=$("$@" 2>&1) || true
  [[ $output == *"$text"* ]] || {
    echo "lacks '$text': $output"
    return 1
  }
}

# In a pod: GET of a URL. Debian's busybox crashes at `wget -T`, hence timeout.
fetch() { kube exec "$1" -- timeout 5 wget -q -O- "$2"; }

# One pod finds another by name, in the short and the full form.
test_dns() {
  contains web-1 fetch web-0 http://web-1.web:8080/name
  contains web-2 fetch web-0 "http://web-2.web.$TEST_NAMESPACE.svc.cluster.local:8080/name"
}

test_unknown_name() { contains NXDOMAIN kube exec web-0 -- nslookup no-such-name.invalid; }

test_exit_code() {
  local status=0
  kube exec web-0 -- sh -c 'exit 7' || status=$?
  ((status == 7)) || { echo "exit code $status instead of 7" && return 1; }
}

test_logs() { contains 'hello from web-0' kube logs web-0; }

# In pod web-0: GET a path of the API with the pod's own token.
api_get() {
  # shellcheck disable=SC2016 # expands in the pod
  kube exec web-0 -- timeout 5 sh -c 'wget -q -O- --header "Authorization: Bearer $(
    cat /var/run/secrets/kubernetes.io/serviceaccount/token)" "https://kubernetes.default.svc$0"' "$1"
}

test_api() { contains '"name": "web-1"' api_get "/api/v1/namespaces/$TEST_NAMESPACE/pods/web-1"; }

# RBAC must refuse what was not granted.
test_least_rights() { contains '403 Forbidden' api_get "/api/v1/namespaces/$TEST_NAMESPACE/secrets"; }

# A service with an address of its own, from the pod that stands behind it too.
test_service() {
  contains web-0 fetch web-0 http://front/name
  contains web-0 fetch web-1 http://front/name
}

test_restricted() {
  contains 'violates PodSecurity "restricted' \
    kube run root --image=tanist.local/busybox:1 --restart=Never -- true
}

# Kubernetes takes some ten seconds to remove a namespace: the test does not wait
# for that at the end; only the next one may have to.
clean_test() { kube delete namespace "$TEST_NAMESPACE" --ignore-not-found "$@" >/dev/null 2>&1; }

self_test() {
  local start=$SECONDS failed=0
  clean_test --timeout=60s
  kube create -f "$DEV/kubernetes/selftest.yaml" >/dev/null
  check "all nodes are ready" test_nodes
  check "a StatefulSet of 3 pods runs" test_set
  check "claims are bound, and a pod's user may write" test_claims
  check "exec returns the command's exit code" test_exit_code
  check "names of pods resolve" test_dns
  check "a name that does not exist is said not to" test_unknown_name
  check "a service leads to its pod" test_service
  check "logs can be read" test_logs
  check "a pod with a service account reaches the API" test_api
  check "RBAC refuses what was not granted" test_least_rights
  check "Pod Security keeps to 'restricted'" test_restricted
  ((failed == 0)) || die "$failed check(s) failed; namespace $TEST_NAMESPACE is kept to look at"
  clean_test --wait=false
  say "all checks passed in $((SECONDS - start)) s"
}
