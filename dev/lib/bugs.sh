# shellcheck shell=bash
# shellcheck disable=SC2154 # dev/mutants and dev/lib/mutants.sh set what is used here
# What dev/mutants --sim does: the simulator lives its seeds with one known bug after the other in force.

# NAME~ROWS OF docs/safety.md~FILE FROM THE ROOT~PERL SUBSTITUTION, one per line.
BUGS=host/sim/tests/bugs

# Seeds that are lived with a bug until it counts as not noticed.
MOST=${MUTANTS_LIVES:-20000}

bugs_of() { sed -E '/^#/d; /^[[:space:]]*$/d' "$BUGS"; }

# found_of BUG: where its result is kept, as JSON. It holds while the change and the file that it changes are the same.
found_of() {
  local file
  file=$(cut -d'~' -f3 <<<"$1")
  { cut -d'~' -f3- <<<"$1"; cat "$file"; } | sha256sum | cut -c1-12 | sed "s,^,$RESULTS/sim/,"
}

# found BUG: its result: from an earlier run, or from the table, so that a clone begins with what was found elsewhere.
found() {
  local at
  at=$(found_of "$1")
  if [[ ! -f $at && -f docs/simulator-bugs.json ]]; then
    mkdir -p "${at%/*}"
    jq -ce --arg key "${at##*/}" '.bugs[] | select(.key == $key and .lives > 0) | {seed, lived: .lives, said}' docs/simulator-bugs.json >"$at.new" 2>/dev/null && mv "$at.new" "$at"
    rm -f "$at.new"
  fi
  [[ -f $at ]] && cat "$at"
}

# is_found BUG: a seed noticed it, or all were lived.
is_found() { found "$1" | jq -e --argjson most "$MOST" '.seed != null or .lived >= $most' >/dev/null; }

# bug_row NUMBER BUG
bug_row() {
  local name rows file cells
  IFS='~' read -r name rows file _ <<<"$2"
  cells=$(found "$2" | jq -r 'if .seed then "\(.seed) | \(.said | gsub("[|]"; "/"))" else "none of \(.lived) | " end') || cells='not tried yet | '
  echo "| $1 | $name | $rows | ${file#host/} | $cells |"
}

bug_headings() { printf '| | bug | rows | file | first seed that notices it | what it said |\n| --- | --- | --- | --- | --- | --- |\n'; }

# check_bugs: whether each still changes its file.
check_bugs() {
  local name rows file change copy stale=0
  [[ -f $BUGS ]] || return 0
  copy=$(mktemp)
  while IFS='~' read -r name rows file change; do
    cp "$file" "$copy" && perl -0pi -e "$change" "$copy" && ! cmp -s "$copy" "$file" && continue
    echo "mutants: $BUGS: this changes nothing in $file any more: $name" >&2
    stale=1
  done < <(bugs_of)
  rm -f "$copy"
  return "$stale"
}

# run_sim [NAME...]: those whose names begin so, or all. Fails when one is not noticed.
run_sim() {
  local number=0 name rows file change at each what planned=0 done=0 wrong=0 missed=0 status=0
  local -a list arguments
  [[ -f $BUGS ]] || { echo "mutants: there is no $BUGS" >&2; exit 2; }
  renice -n 19 -p $$ >/dev/null
  mapfile -t list < <(bugs_of)
  mkdir -p "$RESULTS/sim"
  prepare_copy
  : >"$plan/list"
  bug_headings
  for each in "${list[@]}"; do
    number=$((number + 1))
    IFS='~' read -r name rows file change <<<"$each"
    is_chosen "$name" "$@" || continue
    at=$(found_of "$each")
    [[ -z $again ]] || rm -f "$at"
    if [[ -z $again ]] && is_found "$each"; then bug_row "$number" "$each"; continue; fi
    cp "$work/$file" "$plan/$number"
    perl -0pi -e "$change" "$plan/$number"
    if cmp -s "$plan/$number" "$work/$file"; then
      echo "mutants: bug $number changes nothing in $file: $name" >&2
      wrong=$((wrong + 1))
      continue
    fi
    printf '%s\t%s\t%s\t%s\t\n' "$number" "$file" "$plan/$number" "$at" >>"$plan/list"
    planned=$((planned + 1))
  done
  if ((planned > 0)); then
    # Many lives are worth a slower build.
    unset CARGO_INCREMENTAL
    arguments=(--root "$work" --plan "$plan/list" --most "$MOST")
    [[ -z $minutes ]] || arguments+=(--until $(($(date +%s) + minutes * 60 - SECONDS)))
    exec 8< <(exec "$tool" seeds "${arguments[@]}" 9>&-)
    running=$!
    while read -r what number <&8; do
      done=$((done + 1))
      if [[ $what == wrong ]]; then wrong=$((wrong + 1)); continue; fi
      bug_row "$number" "${list[number - 1]}"
      found "${list[number - 1]}" | jq -e '.seed' >/dev/null || missed=$((missed + 1))
    done
    wait "$running" || status=$?
    running=''
  fi
  ((done == planned)) || echo "mutants: $((planned - done)) bugs are left for the next run" >&2
  ((missed == 0)) || echo "mutants: the simulator does not notice $missed bugs" >&2
  ((wrong == 0)) || echo "mutants: $wrong lines of $BUGS are wrong" >&2
  ((missed + wrong + status == 0))
}

# is_chosen NAME [BEGINNING...]
is_chosen() {
  local name=$1 each
  shift
  (($# > 0)) || return 0
  for each in "$@"; do [[ $name != "$each"* ]] || return 0; done
  return 1
}

# write_bugs: docs/simulator-bugs.md and .json say what is known.
write_bugs() {
  local number=0 noticed=0 tried=0 each name rows file found cells='' objects=''
  [[ -f $BUGS ]] || return 0
  while read -r each; do
    number=$((number + 1))
    IFS='~' read -r name rows file _ <<<"$each"
    found=$(found "$each") || found='{"seed": null, "lived": 0, "said": ""}'
    cells+=$(bug_row "$number" "$each")$'\n'
    objects+=$(jq -c --arg name "$name" --arg rows "$rows" --arg file "$file" --arg key "$(basename "$(found_of "$each")")" \
      '{name: $name, rows: ($rows | split(" ")), file: $file, seed, lives: .lived, said, key: $key}' <<<"$found")$'\n'
    [[ $(jq .lived <<<"$found") == 0 ]] || tried=$((tried + 1))
    [[ $(jq .seed <<<"$found") == null ]] || noticed=$((noticed + 1))
  done < <(bugs_of)
  { echo "$noticed of $number bugs were noticed, $tried tried, with at most $MOST seeds each."; echo; bug_headings; echo -n "$cells"; } |
    replace docs/simulator-bugs.md bugs
  jq -s --arg commit "$(git rev-parse --short=12 HEAD)" --arg date "$(date '+%F %H:%M')" --arg rust "$(rustc --version | cut -d' ' -f2)" --argjson most "$MOST" \
    '{about: {date: $date, commit: $commit, rust: $rust, seeds: $most}, bugs: .}' <<<"$objects" >docs/simulator-bugs.json
}
