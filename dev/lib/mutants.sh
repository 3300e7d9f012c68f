# shellcheck shell=bash
# shellcheck disable=SC2154 # dev/mutants sets root
# What dev/mutants does: lists of mutations, results kept by sources, runs in a copy, tables. It sets crate, random, again, apart and minutes.

# dev/env.sh is sourced only in the copy: it claims the folder that is built into for the checkout in which it is sourced, and questions like --check
# build nothing.
export TANIST_CACHE="${TANIST_CACHE:-$HOME/.cache/tanist}"

# Where results are kept: MODE/NAME, one file each; see result_of.
RESULTS=${MUTANTS_TARGET:-$TANIST_CACHE/mutants}/results

# What the table of a crate says of each rule; see read_rows.
declare -A rows=()
: "${MUTANTS_FILTER:=}"

# Crates whose tests are built in seconds, because they need neither wasmtime nor kube.
QUICK=(host/core host/protocol host/runner policies/sdk policies/sequence)

# Seconds of a processor until a mutation that makes a test run for ever counts as noticed. Of the processor, because what runs only when nothing else
# does may wait for hours.
LONGEST=900

# Seconds until one that makes a test wait for ever does.
WAITED=7200

crates() { git ls-files --cached --others --exclude-standard -- 'host/*/tests/mutations' 'policies/*/tests/mutations' | sed 's,/tests/mutations$,,'; }

# mutations_of CRATE: its list, one mutation per line.
mutations_of() { sed -E '/^#/d; /^[[:space:]]*$/d' "$1/tests/mutations"; }

# A mutation whose pattern no longer matches would otherwise end a run after an hour.
check() {
  local each rule file change copy stale=0
  copy=$(mktemp)
  for each in $(crates); do
    while IFS='~' read -r rule file change; do
      cp "$each/src/$file" "$copy" && perl -0pi -e "$change" "$copy" && ! cmp -s "$copy" "$each/src/$file" && continue
      echo "mutants: $each: this changes nothing in $file any more: $rule" >&2
      stale=1
    done < <(mutations_of "$each")
  done
  rm -f "$copy"
  return "$stale"
}

# What the tests of a crate depend on, besides the versions of its dependencies.
sources_of() {
  case $1 in
    host/core | host/protocol) echo "$1" ;;
    host/runner) echo host/protocol host/runner ;;
    host/api) echo host/api host/core ;;
    host/cluster) echo host/api host/cluster host/core host/mock host/protocol ;;
    host/engine) echo host/core host/engine policies wit ;;
    host/author) echo host/author host/core host/engine policies wit ;;
    host/operator) echo host crds deploy policies wit ;;
    # Their tests ask the core what the host would ask.
    *) echo host/core policies wit ;;
  esac
}

# sources_key CRATE: names the sources for which the unchanged tests were seen to pass; the lists of mutations are left out.
sources_key() {
  local files
  # shellcheck disable=SC2046
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- $(sources_of "$1") Cargo.toml Cargo.lock rust-toolchain.toml |
    grep -v '/tests/mutations$' | LC_ALL=C sort)
  { mode; for file in "${files[@]}"; do [[ ! -f $file ]] || sha256sum "$file"; done; } | sha256sum | cut -c1-16
}

mode() { if [[ -n $random ]]; then echo "random-${MUTANTS_SEEDS:-100}"; else echo "tests${MUTANTS_FILTER:+-$(sha256sum <<<"$MUTANTS_FILTER" | cut -c1-8)}"; fi; }

# result_of CRATE MUTATION: where its result is kept. The name is a key of the change and of the file that it changes: a result holds while these two are
# the same. The tests may have become weaker since; for that samples are always tried anew.
result_of() {
  local file
  file=$(cut -d'~' -f2 <<<"$2")
  { echo "$1"; cut -d'~' -f2- <<<"$2"; cat "$1/src/$file"; } | sha256sum | cut -c1-12 | sed "s,^,$RESULTS/$(mode)/,"
}

# document: where the table of the mode is. The tables know results, too, so that a new machine or a clone begins with what was found elsewhere.
document() { if [[ -n $random ]]; then echo docs/mutations-random.md; else echo docs/mutations.md; fi; }

# part CRATE: the name of its marks in the document.
part() { if [[ -n $random ]]; then echo random; else echo "$1"; fi; }

# from_table CRATE RESULT: the cells of the row with the key of this result; fails when there is none.
from_table() {
  # Rows were found with the usual arguments and seeds only.
  [[ -z ${MUTANTS_FILTER:-} && ${MUTANTS_SEEDS:-100} == 100 ]] || return 1
  awk -v mark="<!-- $(part "$1") -->" -v end="<!-- /$(part "$1") -->" -v key="${2##*/}" -v first="$([[ -n $random ]] && echo 3 || echo 4)" -F ' [|] ' '
    $0 == mark { inside = 1 } $0 == end { inside = 0 }
    inside && $NF == key " |" { cells = $first; for (i = first + 1; i < NF; i++) cells = cells " | " $i; print cells; found = 1 }
    END { exit !found }' "$(document)"
}

# is_known CRATE RESULT: there is a result, and one of the tests that it names exists still. What survived is tried again: there may be a test by now.
is_known() {
  local cells name names
  if [[ ! -f $2 ]]; then
    cells=$(from_table "$1" "$2") || return 1
    mkdir -p "${2%/*}" && echo "$cells" >"$2"
  fi
  read -r cells <"$2"
  [[ $cells != "$SURVIVED" ]] || return 1
  names=$(grep -oE '[a-z0-9]+(_[a-z0-9]+)+' <<<"$cells" || true)
  [[ -n $names ]] || return 0
  for name in $names; do
    # As a function, or as a story in a text.
    grep -rqE "fn $name\\b|^= $name\$" "$1" && return
  done
  return 1
}

# unknown_numbers CRATE: the numbers of all mutations without a result.
unknown_numbers() {
  local number=0 line
  while read -r line; do
    number=$((number + 1))
    is_known "$1" "$(result_of "$1" "$line")" || echo "$number"
  done < <(mutations_of "$1")
}

report_known() {
  local each all unknown
  for each in $(crates); do
    all=$(mutations_of "$each" | wc -l)
    mapfile -t unknown < <(unknown_numbers "$each")
    echo "$each: $((all - ${#unknown[@]})) of $all have a result"
  done
  random=1
  mapfile -t unknown < <(unknown_numbers host/core)
  all=$(mutations_of host/core | wc -l)
  echo "host/core --random, ${MUTANTS_SEEDS:-100} seeds: $((all - ${#unknown[@]})) of $all have a result"
}

# The copy has one place, so that cargo builds only what changed; the lock keeps two runs apart.
prepare_copy() {
  local built=${CARGO_TARGET_DIR:-$TANIST_CACHE/target} file
  export CARGO_TARGET_DIR="${MUTANTS_TARGET:-$TANIST_CACHE/mutants}"
  export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_INCREMENTAL=1
  # Without optimisation, and with all mutations of a function in its frame, a test needs more than the 2 MiB that its thread has otherwise.
  export RUST_MIN_STACK=$((64 * 1024 * 1024))
  work=$CARGO_TARGET_DIR/work
  mkdir -p "$work" "$CARGO_TARGET_DIR/policies"
  exec 9>"$CARGO_TARGET_DIR/lock"
  flock 9
  # Engine and operator embed policies that a recipe built before.
  [[ $built == "$CARGO_TARGET_DIR" ]] || cp -u "$built"/policies/*.{wasm,cwasm} "$CARGO_TARGET_DIR/policies/" 2>/dev/null || true
  # Only what differs is copied, so that what an interrupted run mutated is built anew, and nothing else is.
  git ls-files --cached --others --exclude-standard | sort >"$work/.files"
  (cd "$work" && find . -type f ! -name .files | sed 's,^\./,,' | sort | comm -13 .files - | xargs -r -d '\n' rm -f)
  while read -r file; do
    [[ -f $file && $file != Cargo.toml ]] || continue
    cmp -s "$file" "$work/$file" || { mkdir -p "$work/$(dirname "$file")" && cp "$file" "$work/$file"; }
  done <"$work/.files"
  without_lints <Cargo.toml >"$work/.files"
  cmp -s "$work/.files" "$work/Cargo.toml" || cp "$work/.files" "$work/Cargo.toml"
  cd "$work" || return
  # shellcheck source=/dev/null
  . dev/env.sh
  cargo build -q --locked -p tanist-mutate 9>&-
  cd "$root" || return
  tool=$CARGO_TARGET_DIR/$CARGO_BUILD_TARGET/debug/tanist-mutate
  # Tests of the core take longer than the core to compile.
  [[ $crate != host/core ]] || export CARGO_PROFILE_DEV_OPT_LEVEL=1
  plan=$(mktemp -d)
  trap 'rm -rf "$plan"' EXIT
  # The tool ends what it started. An interrupted test must not count as one that failed.
  trap '[[ -z ${running:-} ]] || kill "$running"; echo "mutants: interrupted; what is known so far is kept" >&2; exit 130' INT TERM HUP
}

# without_lints: a rule that is disabled may leave a variable unused.
without_lints() {
  awk '/^\[workspace\.lints\.rust\]/ { print; print "warnings = \"allow\""; print ""; skip = 1; next } /^\[workspace\.lints\./ { skip = 1; next } /^\[/ { skip = 0 } !skip'
}

# arguments: of the tool, for the tests of a crate. Those of the core leave out the long random ones, which have a table of their own.
arguments() {
  local words=${MUTANTS_FILTER:-}
  local -a of_tests=()
  arguments=(--root "$work" --package "$(sed -nE 's/^name = "(.*)"/\1/p' "$crate/Cargo.toml" | sed -n 1p)" --folder "$crate" --plan "$plan/list"
    --processor "$LONGEST" --clock "${MUTANTS_WAIT:-$WAITED}" --passed "$RESULTS/passed-$(sources_key "$crate")")
  [[ -z $minutes ]] || arguments+=(--until $(($(date +%s) + minutes * 60 - SECONDS)))
  [[ -z $apart ]] || arguments+=(--apart)
  case $crate in
    host/core) arguments+=(--test core) words=${words:---skip chaos} ;;
    # Most mutations are noticed by the crate's own unit tests; the programs of its other tests take most of the time to link.
    host/operator) arguments+=(--first bins) ;;
    host/cluster | host/engine | host/author) arguments+=(--first lib) ;;
  esac
  # The tests of the others start processes or look at the clock: two at a time would be in each other's way.
  case $crate in
    host/api | host/author | host/core | host/protocol | policies/*) arguments+=(--jobs "$(nproc)") ;;
  esac
  [[ -z $random ]] || { arguments+=(--random "${MUTANTS_SEEDS:-100}") && words='--nocapture chaos'; }
  read -ra of_tests <<<"$words"
  arguments+=(-- "${of_tests[@]}")
}

SURVIVED='**none: it survived**'
UNTRIED='not tried yet in this form'

# survived RESULT: no test noticed it.
survived() { [[ -f $1 ]] && grep -qF "$SURVIVED" "$1"; }

# read_rows CRATE: the cells of all rows of its table by their rules, whatever they were found with.
read_rows() {
  local rule cells
  rows=()
  while IFS=$'\t' read -r rule cells; do rows[$rule]=$cells; done < <(
    awk -v mark="<!-- $(part "$1") -->" -v end="<!-- /$(part "$1") -->" -F ' [|] ' '
      $0 == mark { inside = 1 } $0 == end { inside = 0 }
      inside && NF > 4 && $2 != "rule" { print $2 "\t" $4 }' "$(document)")
}

# tests_in CELLS: the names of tests in them.
tests_in() { grep -oE '[a-z0-9]+(_[a-z0-9]+)+' <<<"$1" | paste -sd' ' || true; }

# hints RULE RESULT: the tests that noticed it before, also where the file that it changes was another one: these run first.
hints() {
  [[ -z $random$MUTANTS_FILTER${MUTANTS_BLIND:-} ]] || return 0
  if [[ -f $2 ]]; then tests_in "$(cat "$2")"; else tests_in "${rows[$1]:-}"; fi
}

# plan_mutation NUMBER MUTATION RESULT: puts it into the tool's plan.
plan_mutation() {
  local rule file change
  IFS='~' read -r rule file change <<<"$2"
  cp "$work/$crate/src/$file" "$plan/$1"
  perl -0pi -e "$change" "$plan/$1"
  if cmp -s "$plan/$1" "$work/$crate/src/$file"; then echo "mutants: $crate $1 changes nothing in $file: $rule" >&2; return 1; fi
  printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$crate/src/$file" "$plan/$1" "$3" "$(hints "$rule" "$3")" >>"$plan/list"
}

headings() {
  if [[ -n $random ]]; then
    printf '| | rule | any answer | the default rule | faults stop | key |\n| --- | --- | --- | --- | --- | --- |\n'
  else
    printf '| | rule | file | tests that fail | key |\n| --- | --- | --- | --- | --- |\n'
  fi
}

# print_row NUMBER MUTATION RESULT: the key in the last column names the change and the file that the result was found with.
print_row() {
  local rule file cells key=${3##*/}
  IFS='~' read -r rule file _ <<<"$2"
  if [[ -f $3 ]]; then
    read -r cells <"$3"
  else
    cells=$(hints "$rule" "$3")
    key=- cells=$UNTRIED${cells:+; before: $cells}${random:+ | - | -}
  fi
  if [[ -n $random ]]; then echo "| $1 | $rule | $cells | $key |"; else echo "| $1 | $rule | $file | $cells | $key |"; fi
}

# run_crate CRATE [NUMBER...]: everything that is not known yet, and the table. Fails when a mutation survived.
run_crate() {
  local number what survived=0 planned=0 done=0 wrong=0 status=0
  local -a list results=()
  crate=$1
  shift
  renice -n 19 -p $$ >/dev/null
  # Only when nothing else runs, so that it can go on beside end-to-end tests. Somebody waits for a sample.
  [[ -n ${MUTANTS_SAMPLE:-} ]] || chrt --idle --pid 0 $$ 2>/dev/null || true
  mapfile -t list < <(mutations_of "$crate")
  mkdir -p "$RESULTS/$(mode)"
  (($# > 0)) || mapfile -t numbers < <(seq "${#list[@]}")
  (($# == 0)) || numbers=("$@")
  prepare_copy
  read_rows "$crate"
  : >"$plan/list"
  headings
  for number in "${numbers[@]}"; do
    ((number >= 1 && number <= ${#list[@]})) || { echo "mutants: $crate has no number $number" >&2; exit 2; }
    results[number]=$(result_of "$crate" "${list[number - 1]}")
    if [[ -z $again ]] && is_known "$crate" "${results[number]}"; then
      print_row "$number" "${list[number - 1]}" "${results[number]}"
      continue
    fi
    # A line that is wrong itself does not end a run of hours.
    plan_mutation "$number" "${list[number - 1]}" "${results[number]}" || { wrong=$((wrong + 1)); continue; }
    planned=$((planned + 1))
    [[ -z $again ]] || rm -f "${results[number]}"
  done
  if ((planned > 0)); then
    local -a arguments
    arguments
    exec 8< <(exec "$tool" tests "${arguments[@]}" 9>&-)
    running=$!
    while read -r what number <&8; do
      done=$((done + 1))
      if [[ $what == wrong ]]; then wrong=$((wrong + 1)); continue; fi
      print_row "$number" "${list[number - 1]}" "${results[number]}"
      # The random tests see a part only; they are not expected to see all.
      if [[ -z $random ]] && survived "${results[number]}"; then survived=$((survived + 1)); fi
    done
    wait "$running" || status=$?
    running=''
  fi
  ((done == planned)) || echo "mutants: $((planned - done)) of $crate are left for the next run" >&2
  if ((survived > 0)); then echo "mutants: $survived of $crate survived" >&2; fi
  if ((wrong > 0)); then echo "mutants: $wrong lines of $crate/tests/mutations are wrong" >&2; fi
  ((survived + wrong + status == 0))
}

# run_sample N [CRATE]: which ones depends on the commit, so it changes with each commit, and is the same again for the same commit.
run_sample() {
  local commit at turn=0 chosen='' words failed=0 each
  local -a rows=() among=()
  commit=$(git rev-parse HEAD)
  if [[ -n $2 ]]; then among=("$2"); else among=("${QUICK[@]}"); fi
  for each in "${among[@]}"; do
    mapfile -t -O "${#rows[@]}" rows < <(mutations_of "$each" | awk -v crate="$each" '{ print crate, NR }')
  done
  while (($(wc -w <<<"$chosen") < $1 && turn < 10000)); do
    at=$((16#$(sha256sum <<<"$commit $turn" | cut -c1-8) % ${#rows[@]}))
    turn=$((turn + 1))
    [[ " $chosen " == *" $at "* ]] || chosen+=" $at"
  done
  echo "mutants: a sample by commit ${commit:0:12}, $1 of ${#rows[@]} rules of ${among[*]}; the same again:"
  for each in "${among[@]}"; do
    words=$(for at in $chosen; do echo "${rows[at]}"; done | awk -v crate="$each" '$1 == crate { print $2 }' | sort -n | paste -sd' ')
    [[ -z $words ]] || echo "  dev/mutants $each $words"
  done
  for each in "${among[@]}"; do
    words=$(for at in $chosen; do echo "${rows[at]}"; done | awk -v crate="$each" '$1 == crate { print $2 }' | sort -n | paste -sd' ')
    [[ -n $words ]] || continue
    # shellcheck disable=SC2086
    MUTANTS_SAMPLE=1 "$root/dev/mutants" --again "$each" $words || failed=1
  done
  return "$failed"
}

# table CRATE: its whole table from known results, and a sentence that counts them.
table() {
  local number=0 known=0 line result cells=''
  read_rows "$1"
  while read -r line; do
    number=$((number + 1))
    result=$(result_of "$1" "$line")
    if is_known "$1" "$result"; then known=$((known + 1)); elif ! survived "$result"; then result=''; fi
    cells+=$(print_row "$number" "$line" "$result")$'\n'
  done < <(mutations_of "$1")
  if ((known == number)); then echo -n "All $number were tried"; else echo -n "$known of $number were tried"; fi
  if [[ -n $random ]]; then echo " with ${MUTANTS_SEEDS:-100} seeds."; else echo "."; fi
  echo
  headings
  echo -n "$cells"
}

# replace FILE NAME: what stands between the marks of that name becomes the standard input.
replace() {
  local new
  new=$(mktemp)
  cat >"$new"
  grep -qF "<!-- $2 -->" "$1" || { echo "mutants: $1 has no mark $2" >&2; return 1; }
  awk -v name="$2" -v new="$new" '
    $0 == "<!-- /" name " -->" { inside = 0 }
    !inside
    $0 == "<!-- " name " -->" { inside = 1; print ""; while ((getline line < new) > 0) print line; print "" }
  ' "$1" >"$new.whole"
  cat "$new.whole" >"$1"
  rm -f "$new" "$new.whole"
}

# Puts the tables into the documents. What was not tried since it or its file changed says so.
write_tables() {
  local each
  for each in $(crates); do table "$each" | replace docs/mutations.md "$each"; done
  random=1
  table host/core | replace docs/mutations-random.md random
  echo "mutants: docs/mutations.md and docs/mutations-random.md have what is known"
}
