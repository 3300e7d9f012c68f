# shellcheck shell=bash
# shellcheck disable=SC2154 # who reads this sets root
# Builds another commit in a folder of its own, with as much of the present build as can be taken. Expects $root, the checkout.

# The whole name of a commit, or an error that says what to do.
full_commit() { # COMMIT
  git -C "$root" rev-parse --verify --quiet "$1^{commit}" || {
    echo "${0##*/}: this clone has no commit $1: git fetch --unshallow" >&2
    return 1
  }
}

extract_commit() { # COMMIT FOLDER
  mkdir -p "$2"
  # -m: cargo goes by times, and a commit's own would be older than what an earlier one left.
  git -C "$root" archive "$1" | tar -xm -C "$2"
  take_profile "$2"
}

# Development profile of the present release, or none of the dependencies could be taken. It changes how fast a program is, not what it does.
# The release profile stays that of the commit.
take_profile() { # FOLDER
  local profile='/^\[/ { of_profile = /^\[profile\.dev[].]/ }'
  { awk "$profile !of_profile" "$1/Cargo.toml"; awk "$profile of_profile" "$root/Cargo.toml"; } >"$1/Cargo.toml.new"
  mv "$1/Cargo.toml.new" "$1/Cargo.toml"
}

# Dependencies as links: they are never written again under the same name. What cargo notes about them is copied, and our own crates are left out.
take_dependencies() { # FROM TO: target folders
  local from part
  mkdir -p "$2"
  [[ -d $1 ]] || return 0
  while read -r from; do
    part=$2/${from#"$1"/}
    [[ ! -d $part ]] || continue
    mkdir -p "$part"
    cp -al "$from/deps" "$part/deps"
    cp -a "$from/.fingerprint" "$part/.fingerprint"
    if [[ -d $from/build ]]; then cp -a "$from/build" "$part/build"; fi
    find "$part" -mindepth 2 -maxdepth 2 \( -name '*tanist*' -o -name '*policy_build*' -o -name '*policy-build*' \) -exec rm -rf {} +
  done < <(find "$1" -mindepth 1 -maxdepth 3 -type d -name .fingerprint -printf '%h\n')
}
