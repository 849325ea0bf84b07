# shellcheck shell=sh disable=SC2154
# SC2154: token is set by the generated part. stop, digest and folder are those of copy.sh.
# Function that prints a file or a folder: a line "begin KIND PATH", the bytes, and a line "STATUS DIGEST".

contents() { # PATH
  if [ -d "$1" ]; then
    (cd "$1" && tar -cf - .)
  else
    cat "$1"
  fi
}

fetch() { # PATH LIMIT
  if [ -d "$1" ]; then
    kind=folder
    if [ ! -r "$1" ] || [ ! -x "$1" ]; then stop 0 unreadable; fi
  elif [ -f "$1" ]; then
    kind=file
    [ -r "$1" ] || stop 0 unreadable
  elif [ -e "$1" ]; then
    stop 0 not_a_file
  else
    stop 0 missing
  fi
  temp=${TMPDIR:-/tmp}/legwork-fetch-$token
  mkdir "$temp" || stop 0 temp
  folder=$temp
  mkfifo "$temp/pipe" || stop 0 temp
  printf 'begin %s %s\n' "$kind" "$1"
  digest "$temp/pipe" >"$temp/digest" &
  {
    contents "$1" 2>"$temp/said"
    echo $? >"$temp/status"
  } | head -c "$2" | tee "$temp/pipe"
  wait
  status=$(cat "$temp/status")
  # A log that grows while it is read is no failure.
  if [ "$status" = 1 ] && ! grep -v -e 'file changed as we read it$' -e 'socket ignored$' "$temp/said" >/dev/null; then
    status=0
  fi
  head -c 1000 "$temp/said" >&2
  printf '\n%s %s\n' "$status" "$(cat "$temp/digest")"
}
