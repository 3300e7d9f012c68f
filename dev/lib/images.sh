# shellcheck shell=bash
# Images: those every cluster needs, and loading others into the nodes.

images_of() {
  local node=$1
  shift
  ctr --address "$(containerd_socket "$node")" --namespace k8s.io images "$@"
}

basic_images() {
  echo "$CACHE/images/pause.tar"
  echo "$CACHE/images/busybox.tar"
}

# Both are made quickly from busybox-static, at each `up`, so that they are
# never older than the scripts.
ensure_images() { step "making the basic images" make_basic_images; }

make_basic_images() {
  local folder
  mkdir -p "$CACHE/images"
  # Removes files that a crash left; younger ones may be in use by another cluster.
  find "$CACHE/images" -name '.image.*' -mmin +60 -exec rm -rf {} +
  "$DEV/image-busybox" "$CACHE/images/busybox.tar"
  # A pod's sandbox only has to sleep; it is ended with SIGKILL.
  folder=$(mktemp -d)
  cp "$(command -v busybox)" "$folder/busybox"
  "$DEV/image" "$folder" tanist.local/pause:1 "$CACHE/images/pause.tar" \
    --entrypoint '["/busybox", "sleep", "2147483647"]'
  rm -r "$folder"
}

load_basic_images() {
  local images
  mapfile -t images < <(basic_images)
  load_images "${images[@]}"
}

# Nodes import at the same time; each unpacks its own copy.
load_images() {
  local node pid pids=() status=0
  for node in $(node_names); do
    machine_pid "$node" >/dev/null || {
      echo "$node is not running: left out" >&2
      continue
    }
    load_into "$node" "$@" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
  return "$status"
}

load_into() {
  local node=$1 image
  shift
  for image in "$@"; do
    images_of "$node" import "$image" || {
      echo "importing $image into $node failed" >&2
      return 1
    }
  done
}

load() {
  (($# > 0)) || die "load: name one image archive or more"
  local image
  for image in "$@"; do [[ -r $image ]] || die "load: cannot read $image"; done
  # One after the other: of an image that two import at the same time containerd says to one that it is there already.
  (flock 8 && load_images "$@") 8<"$RUN/nodes"
  say "loaded $# archive(s) into $(node_count) node(s)"
}
