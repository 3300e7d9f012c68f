# shellcheck shell=bash
# The only list of packages that targets of the Makefile and scripts need beyond a bare Debian 12.

# A command (or file) and the package that brings it. modprobe is for the
# kernel, which calls it to load overlay, bridge, veth and netfilter modules.
NEEDED="
musl-gcc musl-tools
strip binutils
containerd containerd
crun crun
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
jq jq
bc bc
shellcheck shellcheck
"

missing_packages() {
  local need package
  while read -r need package; do
    [[ -z $need || -e $need ]] || command -v "$need" >/dev/null || echo "$package"
  done <<<"$NEEDED" | sort -u
}

apt() { DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2 "$@"; }

# install_packages NAME...: the output of apt-get is shown only when it fails.
install_packages() {
  local policy=/usr/sbin/policy-rc.d own=
  # Containerd's package would start a service: this file, for as long as the
  # installation runs, tells Debian not to. One of ours that a crash left goes too.
  if [[ ! -e $policy ]] || grep 'tanist dev/cluster' "$policy" >/dev/null; then
    own=yes
    printf '#!/bin/sh\n# by tanist dev/cluster\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  local status=0 said
  # The lists of a new machine are empty, and those of an old one name versions that are gone.
  said=$({ apt update && apt install "$@"; } 2>&1) || status=$?
  [[ -z $own ]] || rm -f "$policy"
  ((status == 0)) || echo "$said" >&2
  return "$status"
}
