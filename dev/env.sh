# Sourced by the Makefile's recipes and by people who call cargo by hand. One target folder outside the checkout serves every clone on a
# machine, so a fresh clone on a warm machine rebuilds only our own crates. Everything is built for musl: the same artefacts run in the
# unit tests and in the image.
export TANIST_CACHE="${TANIST_CACHE:-$HOME/.cache/tanist}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$TANIST_CACHE/target}"
export CARGO_BUILD_TARGET="${CARGO_BUILD_TARGET:-x86_64-unknown-linux-musl}"
export CC_x86_64_unknown_linux_musl="${CC_x86_64_unknown_linux_musl:-musl-gcc}"
