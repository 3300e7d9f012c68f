# Sourced by the Makefile's recipes and by developers who call cargo by hand. One target folder outside the checkout serves every clone on a
# machine, so a fresh clone on a warm machine rebuilds only our own crates. Everything is built for musl: the same artefacts run in the
# unit tests and in the image.
#
# Cargo recognises changes by times alone, and uses what another checkout built as if it were its own, including paths in it. So a checkout that is
# not the one that built last touches its sources: our crates are built anew, their dependencies are not. Two checkouts at the same time need two folders.
export TANIST_CACHE="${TANIST_CACHE:-$HOME/.cache/tanist}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$TANIST_CACHE/target}"
export CARGO_BUILD_TARGET="${CARGO_BUILD_TARGET:-x86_64-unknown-linux-musl}"
# Make's job server, which these variables announce to cargo, is not open to recipes.
unset MAKEFLAGS MFLAGS CARGO_MAKEFLAGS
export CC_x86_64_unknown_linux_musl="${CC_x86_64_unknown_linux_musl:-musl-gcc}"
if [ -f "$PWD/dev/env.sh" ] && [ "$(cat "$CARGO_TARGET_DIR/checkout" 2>/dev/null)" != "$PWD" ]; then
  mkdir -p "$CARGO_TARGET_DIR"
  find host policies dev wit crds -type f \( -name '*.rs' -o -name '*.toml' -o -name '*.wit' -o -name '*.yaml' \) -exec touch {} +
  echo "$PWD" >"$CARGO_TARGET_DIR/checkout"
fi
