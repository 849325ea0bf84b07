_lw_say() { printf '\036%s %s\n' "$_lw_n" "$1" >&2; }
_lw_fail() { _lw_say "fault $1"; exit "$2"; }
_lw_begin() { printf '\036%s begin\n' "$_lw_n"; }
_lw_enter() {
  case $_lw_d in
  '') ;;
  '~') cd || _lw_fail dir 126 ;;
  '~/'*) cd "$HOME/${_lw_d#??}" || _lw_fail dir 126 ;;
  *) cd "$_lw_d" || _lw_fail dir 126 ;;
  esac
}
# Does this shell lead a process group? sshd makes it so; others may not.
_lw_leads() {
  _lw_g=
  { read -r _lw_a _lw_a _lw_a _lw_a _lw_g _lw_a </proc/$$/stat; } 2>/dev/null
  [ "$_lw_g" = "$$" ]
}
# In a subshell: becomes the command "$@", after the words of _lw_how.
_lw_become() {
  _lw_env
  if [ "$_lw_want" ]; then
    LEGWORK_OUTPUT=$_lw_t/output
    export LEGWORK_OUTPUT
  fi
  umask "$_lw_u"
  _lw_enter
  command -v "$1" >/dev/null 2>&1 || _lw_fail interpreter 127
  exec </dev/null
  case $_lw_how in
  session) exec "$_lw_ss" /bin/sh "$_lw_t/start" "$@" ;;
  job) exec /bin/sh "$_lw_t/start" "$@" ;;
  *) exec "$@" ;;
  esac
}
_lw_start() {
  _lw_ss=$(command -v setsid) && _lw_how=session
  if [ -z "$_lw_how" ]; then
    set -m 2>/dev/null
    case $- in *m*) _lw_how=job ;; esac
  fi
  if [ "$_lw_how" = job ]; then
    (_lw_become "$@") &
    _lw_p=$!
    set +m
    while :; do
      wait "$_lw_p" 2>/dev/null
      _lw_x=$?
      kill -0 "$_lw_p" 2>/dev/null || break
    done
    return "$_lw_x"
  fi
  [ "$_lw_how" ] || _lw_say "pid $$"
  (_lw_become "$@")
}
_lw_collect() {
  [ -s "$_lw_t/output" ] || return 0
  dd if="$_lw_t/output" bs=33024 count=1 2>/dev/null | while IFS= read -r _lw_l || [ -n "$_lw_l" ]; do
    printf '\036%s out %s\n' "$_lw_n" "$_lw_l" >&2
  done
}
_lw_main() {
  _lw_u=$(umask)
  umask 077
  _lw_how=
  _lw_then=_lw_start
  _lw_t=${TMPDIR:-/tmp}/legwork-$_lw_i
  mkdir "$_lw_t" || _lw_fail folder 126
  trap 'rm -rf "$_lw_t"' EXIT
  trap : HUP INT TERM PIPE
  { printf '%s' "$_lw_s" >"$_lw_t/$_lw_f" &&
    printf 'printf "\\036%%s pid %%s\\n" %s "$$" >&2\nexec "$@"\n' "$_lw_n" >"$_lw_t/start" &&
    : >"$_lw_t/output"; } || _lw_fail folder 126
  _lw_s=
  _lw_begin
  _lw_with
  _lw_r=$?
  [ -z "$_lw_want" ] || _lw_collect
  _lw_say "exit $_lw_r"
  exit "$_lw_r"
}
if [ "$_lw_plain" ] && _lw_leads; then
  _lw_enter
  _lw_env
  _lw_begin
  _lw_say "pid $$"
  exec </dev/null
  eval "$_lw_s"
  exit $?
else
  _lw_main
fi
