# shellcheck shell=bash
# Installs what a bare Debian 12 lacks.

# A command (or file) and the package that brings it. modprobe is for the
# kernel, which calls it to load overlay, bridge, veth and netfilter modules.
NEEDED="
containerd containerd
runc runc
/usr/lib/cni/ptp containernetworking-plugins
iptables iptables
conntrack conntrack
socat socat
ethtool ethtool
ip iproute2
modprobe kmod
openssl openssl
mmdebstrap mmdebstrap
busybox busybox-static
pgrep procps
mount mount
"

missing_packages() {
  local need package
  while read -r need package; do
    [[ -z $need || -e $need ]] || command -v "$need" >/dev/null || echo "$package"
  done <<<"$NEEDED"
}

install_packages() {
  local policy=/usr/sbin/policy-rc.d own=
  # Containerd's package would start a service: this file, for as long as the
  # installation runs, tells Debian not to. One of ours that a crash left goes too.
  if [[ ! -e $policy ]] || grep -q 'tanist dev/cluster' "$policy"; then
    own=yes
    printf '#!/bin/sh\n# by tanist dev/cluster\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  local status=0
  {
    apt-get update &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
  } || status=$?
  [[ -z $own ]] || rm -f "$policy"
  return "$status"
}

ensure_packages() {
  local missing
  missing=$(missing_packages | sort -u | tr '\n' ' ')
  [[ -z ${missing// /} ]] && return
  command -v apt-get >/dev/null ||
    die "lacks the Debian packages: $missing; install what brings them on this system"
  # shellcheck disable=SC2086 # a list of names
  step "installing $missing" install_packages $missing
}
