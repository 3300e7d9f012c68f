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

(($# > 0)) || set -- sequence reversed prefer hostile starlark
policies=()
starlark=
for policy in "$@"; do
  if [[ $policy == starlark ]]; then starlark=yes; else policies+=("$policy"); fi
done
root=$(pwd -P)
cargo_home=${CARGO_HOME:-$HOME/.cargo}

# The crates are plain libraries for everything else: cargo complains about a `cdylib` for the machine's own target.
build() {
  local policy
  # A policy asks for no deep recursion: 32 KiB of stack instead of 1 MiB makes its memory 1 page instead of 17. Paths would be in the texts
  # of panics.
  local paths="--remap-path-prefix=$cargo_home=cargo --remap-path-prefix=$root=tanist"
  export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-Clink-arg=-zstack-size=32768 $paths"
  for policy in "${policies[@]}"; do
    cargo rustc --locked --target wasm32-unknown-unknown --profile policy --crate-type cdylib -p "tanist-policy-$policy"
  done
  # The interpreter of scripts calls itself for what is nested in a script, and nothing in it may ask for randomness.
  if [[ $starlark ]]; then
    export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-Clink-arg=-zstack-size=1048576 $paths --cfg getrandom_backend=\"unsupported\""
    cargo build --locked --target wasm32-unknown-unknown --profile policy --manifest-path policies/starlark/Cargo.toml
  fi
  unset CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS
  cargo build --locked --workspace --bin policy-build
  mkdir -p "$CARGO_TARGET_DIR/policies"
  for policy in "${policies[@]}"; do component "$policy"; done
  [[ ! $starlark ]] || component starlark --prepare
}

component() { # NAME [OPTION]
  "$CARGO_TARGET_DIR/$CARGO_BUILD_TARGET/debug/policy-build" "${@:2}" \
    "$CARGO_TARGET_DIR/wasm32-unknown-unknown/policy/tanist_policy_$1.wasm" "$CARGO_TARGET_DIR/policies/$1.wasm"
}
long_build "building the policies $*" "some 5 minutes the first time on two cores" build
