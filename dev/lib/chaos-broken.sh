# shellcheck shell=bash
# shellcheck disable=SC2154 # other files set these
# `dev/chaos --broken`: operators with a rule disabled, each with the rounds that need this rule. The judge has to notice every one of them.

# NAME|ROUNDS|CRATE:RULE...: rules as the lists CRATE/tests/mutations name them. More than one where another layer holds the same promise: then
# both have to go before anything can be seen.
BROKEN=(
  'early|partition|host/core:May be primary: unknown|host/core:Promise 1: a last primary that is not proven over may be primary'
  'lowest|process+lag|host/core:S24: no member below the highest takes over|host/core:S15: no member below the high-water mark takes over|policies/sequence:A7: a higher number goes first'
)

# Whether the lists still have these rules: dev/check asks, because a run would find out only after a cluster is up.
broken_rules_exist() {
  local each all rule
  local -a rules
  for each in "${BROKEN[@]}"; do
    IFS='|' read -r _ _ all <<<"$each"
    IFS='|' read -r -a rules <<<"$all"
    for rule in "${rules[@]}"; do
      grep -qF "${rule#*:}~" "${rule%%:*}/tests/mutations" || { echo "dev/lib/chaos-broken.sh: ${rule%%:*}/tests/mutations has no rule '${rule#*:}'" >&2 && return 1; }
    done
  done
}

# Each operator is built in a copy, in a target folder of its own, and has an image of its own.
broken() { # IMAGES
  local images=$1 each name kinds rules unnoticed=()
  for each in "${BROKEN[@]}"; do build_broken "$each"; done
  for each in "${BROKEN[@]}"; do
    IFS='|' read -r name kinds rules <<<"$each"
    echo "an operator without: $rules"
    # It may end badly in many ways; what counts is what the judge says of it.
    "$root/dev/chaos" --operator "tanist.local/tanist:broken-$name" --load "$broken/tanist-$name.tar" --images "$images" \
      --kinds "$kinds" --json "$broken/$name.json" 1 || true
    noticed "$broken/$name.json" || unnoticed+=("$name")
  done
  ((${#unnoticed[@]} == 0)) || { echo "dev/chaos: the judge did not notice: ${unnoticed[*]}" >&2 && exit 1; }
  echo "the judge noticed each of the ${#BROKEN[@]} broken operators"
}

# A run that only failed, or was late, is not noticed: it has to be a promise about data or about primaries.
noticed() { # JSON
  local found
  found=$(jq -r '[.violations[] | split(": ")[1]] | unique | map(select(IN("two_acknowledge", "two_writable", "others_lead", "told_to_lead",
    "too_soon", "missing", "illegal_history"))) | join(", ")' "$1" 2>/dev/null) || found=''
  echo "noticed by: ${found:-nothing}"
  [[ -n $found ]]
}

# A mutation that changes nothing is an error: the list and the code have parted.
disable_rule() { # COPY CRATE RULE
  local rule file change before
  IFS='~' read -r rule file change < <(grep -F "$3~" "$1/$2/tests/mutations" | sed -n 1p) || true
  [[ -n $change ]] || { echo "dev/chaos: $2/tests/mutations has no rule '$3'" >&2 && exit 1; }
  before=$(sha256sum <"$1/$2/src/$file")
  perl -0pi -e "$change" "$1/$2/src/$file"
  [[ $before != "$(sha256sum <"$1/$2/src/$file")" ]] || { echo "dev/chaos: '$3' changes nothing in $2/src/$file" >&2 && exit 1; }
}

# An image that is there already is built of the same sources without the same rules.
build_broken() { # NAME|ROUNDS|CRATE:RULE...
  local -a rules
  local name all rule copy=$broken/copy key
  IFS='|' read -r name _ all <<<"$1"
  key=$({ echo "$1"; git ls-files --cached --others --exclude-standard -- host policies wit Cargo.toml Cargo.lock | xargs -d '\n' sha256sum; } | sha256sum)
  [[ ! -s $broken/tanist-$name.tar || $(cat "$broken/$name.key" 2>/dev/null) != "$key" ]] || return 0
  # The copy has one place, so that cargo builds only what a mutation changed.
  mkdir -p "$copy"
  copy_files "$copy"
  IFS='|' read -r -a rules <<<"$all"
  for rule in "${rules[@]}"; do disable_rule "$copy" "${rule%%:*}" "${rule#*:}"; done
  long_build "building the operator without: ${rules[*]}" "some 10 minutes the first time on two cores" cargo_broken "$copy"
  CARGO_TARGET_DIR=$broken/target "$copy/deploy/image" "$broken/tanist-$name.tar" --name "tanist.local/tanist:broken-$name"
  echo "$key" >"$broken/$name.key"
}
cargo_broken() ( # COPY
  cd "$1" && export CARGO_TARGET_DIR=$broken/target
  # Its times are those of the last change: dev/env.sh of the copy must not touch all.
  mkdir -p "$CARGO_TARGET_DIR" && echo "$PWD" >"$CARGO_TARGET_DIR/checkout"
  policies/build.sh sequence starlark
  cargo build --locked --workspace --bin tanist
  cargo build --locked -p tanist-run --profile runner
)
# Only what differs is copied, and what is no longer there goes.
copy_files() { # COPY
  local file
  git ls-files --cached --others --exclude-standard | sort >"$broken/files"
  (cd "$1" && find . -type f | sed 's,^\./,,' | sort | comm -13 "$broken/files" - | xargs -r -d '\n' rm -f)
  while read -r file; do
    [[ -f $file ]] || continue
    cmp -s "$file" "$1/$file" || { mkdir -p "$1/$(dirname "$file")" && cp -p --no-preserve=timestamps "$file" "$1/$file"; }
  done <"$broken/files"
}
