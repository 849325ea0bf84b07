#!/usr/bin/env bash
# A launcher for hosting.exec.run: see docs/HOSTING.md. It starts Runners as processes of this host, each in a folder of its own, to show
# each action; for another cloud put its command line in the place of start, alive and end_process. It wants bash, jq and setsid.
#
# LAUNCHER_HOME is where the folders are. LAUNCHER_PROGRAM is the whole command that is started, for example
# "/usr/local/bin/legwork runner start". Both are variables of the environment of the launching runner. Its setting
# Runner.launcher_environment names them.
set -euo pipefail

told=$(cat)
owner=$(jq -r .owner <<<"$told")
runner=$(jq -r .runner_id <<<"$told")
home=${LAUNCHER_HOME:-$HOME/.legwork-launcher}/$owner/$runner

# fail CODE RETRYABLE MESSAGE: says why it cannot be done.
fail() {
  jq -n --arg code "$1" --argjson retryable "$2" --arg message "$3" '{error: {code: $code, message: $message, retryable: $retryable}}'
  exit 1
}

# started PID: when a process started, in clock ticks since boot. Together with its number it is unique. A runner hides its environment and its
# memory, and everyone may read this.
started() {
  local stat
  read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
  stat=${stat##*) } # the name before may contain spaces
  # shellcheck disable=SC2086
  set -- $stat
  [[ $1 != [ZX] ]] && echo "${20}"
}

# alive NAME: whether the process of a unit runs. A process that only has the same number does not count. An earlier
# version of this script did not record when a process started: then the number decides.
alive() {
  local pid at now
  read -r pid at 2>/dev/null <"$home/$1/pid" || return 1
  now=$(started "$pid") && [ "$now" = "${at:-$now}" ]
}

# working NAME: whether a command that the process of a unit had started still runs. The supervisor does not count.
working() {
  local at
  while read -r at; do
    if ! grep -qsz '^keep$' "${at%cwd}cmdline"; then return 0; fi
  done < <(find /proc -maxdepth 2 -name cwd -lname "$home/$1/work/*" 2>/dev/null)
  return 1
}

# unreported NAME: whether the folder of a unit holds work whose result the server does not have yet.
unreported() { compgen -G "$home/$1/work/jobs/*/journal" >/dev/null; }

# clean NAME: deletes what a stopped unit leaves: its working directory once nothing in it is unreported, everything after a day.
clean() {
  if [ -n "$(find "$home/$1" -maxdepth 0 -mmin +1440)" ]; then rm -rf "${home:?}/$1"; fi
  if ! unreported "$1"; then rm -rf "$home/$1/work"; fi
}

# start NAME: starts the process of a unit in its own folder: that of this script goes as soon as it ends. Its environment, which holds a
# token, goes by a file that only this user can read.
start() {
  mkdir -p "$home/$1/work"
  chmod 700 "$home/$1"
  local before
  before=$(cat "$home/$1/pid" 2>/dev/null || true) # of a process that ended
  jq -r --arg name "$1" --arg work "$home/$1/work" '.units[] | select(.name == $name) | .environment + {LEGWORK_WORKINGDIRECTORY__WORKINGDIRECTORY: $work}
    | to_entries[] | "export \(.key)=\(.value | @sh)"' <<<"$told" >"$home/$1/environment"
  # shellcheck disable=SC2016
  setsid --fork bash -c 'set -eu; cd "$1/work"; . "$1/environment"; rm "$1/environment"; read -r stat </proc/$$/stat; set -- "$1" ${stat##*) }; echo "$$ ${21}" >"$1/pid.new"; mv "$1/pid.new" "$1/pid"; exec ${LAUNCHER_PROGRAM:-legwork runner start}' \
    launcher "$home/$1" </dev/null >>"$home/$1/log" 2>&1
  for _ in $(seq 100); do
    if [ "$(cat "$home/$1/pid" 2>/dev/null || true)" != "$before" ]; then return; fi
    sleep 0.1
  done
  fail launcher_failed true "the process of $1 did not start"
}

# end_process NAME: asks, three times as a Runner wants it, and then kills.
end_process() {
  local signal
  for signal in TERM TERM TERM KILL; do
    alive "$1" || return 0
    kill -s "$signal" "$(cut -d ' ' -f 1 "$home/$1/pid")" 2>/dev/null || true
    for _ in $(seq 100); do
      alive "$1" || return 0
      sleep 0.1
    done
  done
  fail launcher_failed false "the process of $1 cannot be killed"
}

# report NAME...: prints how units are.
report() {
  local name state note
  for name in "$@"; do
    state=running note=
    if ! alive "$name" && ! working "$name"; then
      state=stopped
      note=$(tail -n 3 "$home/$name/log" 2>/dev/null | cut -c -300 | paste -sd ' ' - || true) # why a process ended is best told at its end
    fi
    jq -n --arg name "$name" --arg id "pid $(cut -d ' ' -f 1 "$home/$name/pid" 2>/dev/null || true)" --arg state "$state" --arg note "$note" \
      '{name: $name, id: $id, state: $state, note: $note}'
  done | jq -s '{units: .}'
}

case $1 in
describe)
  command -v setsid >/dev/null || fail launcher_denied false "setsid is not installed"
  jq -n --arg at "$home" '{said: ["processes start on this host, below \($at)"]}'
  ;;
ensure)
  mapfile -t names < <(jq -r '.units[].name' <<<"$told")
  for name in "${names[@]}"; do
    if [ ! -e "$home/$name/pid" ]; then start "$name"; fi # one that ended is not started again
  done
  report "${names[@]}"
  ;;
list)
  mapfile -t names < <(cd "$home" 2>/dev/null && ls -1)
  report "${names[@]}"
  for name in "${names[@]}"; do
    if ! alive "$name" && ! working "$name"; then clean "$name"; fi
  done
  ;;
resume)
  mapfile -t names < <(jq -r '.units[].name' <<<"$told")
  known=()
  for name in "${names[@]}"; do
    if [ ! -e "$home/$name/pid" ]; then continue; fi
    if ! alive "$name" && unreported "$name"; then start "$name"; fi
    known+=("$name")
  done
  report "${known[@]}"
  ;;
stop)
  mapfile -t names < <(jq -r '.names[]' <<<"$told")
  for name in "${names[@]}"; do end_process "$name"; done
  ;;
remove)
  mapfile -t names < <(cd "$home" 2>/dev/null && ls -1)
  for name in "${names[@]}"; do end_process "$name"; done
  rm -rf "$home"
  ;;
*) fail launcher_failed false "there is no action $1" ;;
esac
