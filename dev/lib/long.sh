# shellcheck shell=bash
# Long steps print what they do and how long that usually takes, and then that they are still running.

# Seconds between two signs of life.
SIGN_SECONDS=20

# long TITLE EXPECTED COMMAND...: runs a long command. Its output is shown only when it failed.
long() {
  local title=$1 expected=$2 log
  shift 2
  log=$(mktemp -t tanist-step.XXXXXX)
  echo "$title${expected:+ ($expected)} ..."
  long_quietly "$title" "$log" "$@"
}

# The same for cargo and its like, which show their own progress on a terminal.
long_build() {
  local title=$1 expected=$2
  if [[ ! -t 1 || ! -t 2 ]]; then
    long "$@"
    return
  fi
  shift 2
  echo "$title${expected:+ ($expected)}"
  "$@"
}

long_quietly() { # TITLE LOG COMMAND...
  local title=$1 log=$2 start=$SECONDS status=0 signs shows
  shift 2
  exec {signs}> >(show_signs "$title" "$log")
  shows=$!
  # Not `if "$@"`: a condition would switch errexit off inside the function.
  set +e
  (
    # What the command leaves running must not hold the signs open.
    exec {signs}>&-
    set -e
    "$@"
  ) >"$log" 2>&1
  status=$?
  set -e
  exec {signs}>&-
  # A sign of life that is just being written comes before the end.
  wait "$shows" || true
  if ((status != 0)); then
    tail -n 40 "$log" >&2
    rm -f "$log"
    echo "$title: failed after $(clock $((SECONDS - start))) (last lines above)" >&2
    return "$status"
  fi
  rm -f "$log"
  echo "$title: done in $(clock $((SECONDS - start)))"
}

# Ends with its input, which is open as long as the step or the program that started it runs.
show_signs() { # TITLE LOG
  local start=$SECONDS status last
  while :; do
    status=0
    read -r -t "$SIGN_SECONDS" || status=$?
    ((status > 128)) || return 0
    last=$(tail -n 1 "$2" 2>/dev/null | tr -d '\r' | cut -c1-70) || true
    echo "  $1: $(clock $((SECONDS - start)))${last:+  $last}"
  done
}

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }
