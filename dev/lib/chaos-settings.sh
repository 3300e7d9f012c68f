# shellcheck shell=bash
# shellcheck disable=SC2154 # other files set these
# `dev/chaos --settings`: what each setting gives under the same faults, in groups of two and of three. Some may lose acknowledged rows, and say so.

SETTINGS=(required remote-apply preferred async async-freshest)
SETTING_KINDS=(process pod process+lag-all pod+lag-all node+lag-all)

all_settings() { # IMAGES
  local members name file failed=() files=()
  for members in 2 3; do
    for name in "${SETTINGS[@]}"; do
      file=$(dirname "$json")/setting-$name-$members.json
      echo "$name, $members members"
      MEMBERS=$members "$root/dev/chaos" --setting "$name" --images "$1" --json "$file" --kinds "$(IFS=, && echo "${SETTING_KINDS[*]}")" "${#SETTING_KINDS[@]}" ||
        failed+=("$name-$members")
      [[ ! -s $file ]] || files+=("$file")
    done
  done
  setting_table "${files[@]}"
  ((${#failed[@]} == 0)) || { echo "dev/chaos: failed or violated: ${failed[*]}" >&2 && exit 1; }
}

setting_table() { # JSON...
  echo
  echo '| members | setting | may lose | rounds | acknowledged rows lost | longest outage, ms | violations |'
  echo '| --- | --- | --- | --- | --- | --- | --- |'
  jq -r '"| \(.members) | \(.setting) | \(if .mayLose then "yes" else "no" end) | \(.rounds | length) | \([.rounds[] | "\(.kind): \(.lost)"] | join(", ")) | \([.rounds[].outage] | max) | \(.violations | length) |"' "$@"
}
