# shellcheck shell=bash
# CLUSTER=current: the cluster of the current kubeconfig, made by others.

current_kubectl() {
  # -P: the program, not the function of that name.
  if type -P kubectl >/dev/null; then
    command kubectl "$@"
  else
    build_all >&2
    "$(kubernetes_binary)" kubectl "$@"
  fi
}

current_load() {
  local image
  [[ -n ${IMAGE_LOAD:-} ]] || die "set IMAGE_LOAD to the command that loads an image archive into the current" \
    "cluster, e.g. IMAGE_LOAD='kind load image-archive'"
  for image in "$@"; do
    # Split on purpose: it is a command with its arguments.
    # shellcheck disable=SC2086
    $IMAGE_LOAD "$image" || die "'$IMAGE_LOAD $image' failed"
  done
}

on_current() {
  local command=$1
  shift || true
  case $command in
    up | wait | status)
      current_kubectl wait --for=condition=Ready node --all --timeout=60s ||
        die "the current cluster does not answer or has nodes that are not ready: check \$KUBECONFIG"
      say "is someone else's cluster: checked, not started"
      ;;
    down) say "is someone else's cluster: left as it is" ;;
    load) current_load "$@" ;;
    kubeconfig) echo "${KUBECONFIG:-$HOME/.kube/config}" ;;
    kubectl) current_kubectl "$@" ;;
    test)
      ensure_images
      current_load "$CACHE/images/busybox.tar"
      self_test
      ;;
    *) die "'$command' cannot be done to the current cluster, which is not ours" ;;
  esac
}
