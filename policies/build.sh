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

builder=$CARGO_TARGET_DIR/$CARGO_BUILD_TARGET/debug/policy-build

component() { # NAME [OPTION]
  "$builder" "${@:2}" \
    "$CARGO_TARGET_DIR/wasm32-unknown-unknown/policy/tanist_policy_$1.wasm" "$CARGO_TARGET_DIR/policies/$1.wasm"
}

# compiled WHAT NAME: for every machine of the target's kind, anew only after a change of the component or of the compiler.
compiled() {
  local component=$CARGO_TARGET_DIR/policies/$2.wasm to=$CARGO_TARGET_DIR/policies/$2.cwasm mark=$CARGO_TARGET_DIR/policies/.$2.compiled
  [[ ! -e $to || $component -nt $mark || $builder -nt $mark ]] || return 0
  "$builder" --compile "$1" "$CARGO_BUILD_TARGET" "$component" "$to"
  touch "$mark"
}

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
  # The interpreter of scripts calls itself for what is nested in a script, and nothing in it may ask for randomness. The checkout's path is in none of
  # its texts, and among the flags it would have every checkout build a hundred crates anew.
  if [[ $starlark ]]; then
    paths="--remap-path-prefix=$cargo_home=cargo"
    export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-Clink-arg=-zstack-size=1048576 $paths --cfg getrandom_backend=\"unsupported\""
    cargo build --locked --target wasm32-unknown-unknown --profile policy --manifest-path policies/starlark/Cargo.toml
  fi
  unset CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS
  cargo build --locked --workspace --bin policy-build
  mkdir -p "$CARGO_TARGET_DIR/policies"
  for policy in "${policies[@]}"; do component "$policy"; done
  [[ ! $starlark ]] || component starlark --prepare
  # What the operator carries with it.
  for policy in "${policies[@]}"; do [[ $policy != sequence ]] || compiled policy sequence; done
  [[ ! $starlark ]] || compiled interpreter starlark
}

long_build "building the policies $*" "some 5 minutes the first time on two cores" build
