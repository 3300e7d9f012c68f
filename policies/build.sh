#!/usr/bin/env bash
# Builds policies: Rust -> core module -> component, into $CARGO_TARGET_DIR/policies/NAME.wasm. Run it again at will: what is up to date
# stays untouched. The same source gives the same bytes, wherever the checkout and cargo's folders are.
#
# usage: policies/build.sh [NAME...]     default: all of them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=/dev/null
. dev/env.sh
# shellcheck source=/dev/null
. dev/lib/long.sh

(($# > 0)) || set -- sequence reversed prefer hostile
policies=("$@")
root=$(pwd -P)
cargo_home=${CARGO_HOME:-$HOME/.cargo}

# The crates are plain libraries for everything else: cargo complains about a `cdylib` for the machine's own target.
build() {
  local policy
  # A policy asks for no deep recursion: 32 KiB of stack instead of 1 MiB makes its memory 1 page instead of 17. Paths would be in the texts
  # of panics.
  export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-Clink-arg=-zstack-size=32768 --remap-path-prefix=$cargo_home=cargo --remap-path-prefix=$root=tanist"
  for policy in "${policies[@]}"; do
    cargo rustc --locked --target wasm32-unknown-unknown --profile policy --crate-type cdylib -p "tanist-policy-$policy"
  done
  unset CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS
  cargo build --locked --workspace --bin policy-build
  mkdir -p "$CARGO_TARGET_DIR/policies"
  for policy in "${policies[@]}"; do
    "$CARGO_TARGET_DIR/$CARGO_BUILD_TARGET/debug/policy-build" \
      "$CARGO_TARGET_DIR/wasm32-unknown-unknown/policy/tanist_policy_$policy.wasm" "$CARGO_TARGET_DIR/policies/$policy.wasm"
  done
}
long_build "building the policies ${policies[*]}" "some 2 minutes the first time on two cores" build
