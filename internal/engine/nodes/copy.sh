# shellcheck shell=sh disable=SC2154
# SC2154: owner, group, token and archive are set by the generated part.
# Functions that write files. The calls that follow are generated; every value in them is one quoted word.
# Reports go to standard output, one per line.
LC_ALL=C
export LC_ALL
umask 077
new=
folder=

stop() { # NUMBER REASON
  printf 'stop %s %s\n' "$1" "$2"
  exit 1
}
cleanup() {
  [ -z "$new" ] || rm -f "$new"
  [ -z "$folder" ] || rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

digest() { # FILE
  if command -v sha256sum >/dev/null 2>&1; then
    sum=$(sha256sum <"$1")
  elif command -v shasum >/dev/null 2>&1; then
    sum=$(shasum -a 256 <"$1")
  elif command -v sha256 >/dev/null 2>&1; then
    sum=$(sha256 -q <"$1")
  else
    sum=$(openssl dgst -sha256 -r <"$1")
  fi
  printf '%s' "${sum%% *}"
}

as_declared() { # PATH MODE
  set -- "$1" "$2" "$1" -prune
  [ -z "$2" ] || set -- "$@" -perm "$2"
  [ -z "$owner" ] || set -- "$@" -user "$owner"
  [ -z "$group" ] || set -- "$@" -group "$group"
  shift 2
  [ -n "$(find "$@" 2>/dev/null)" ]
}

check_folder() { # NUMBER PATH
  [ -d "$2" ] && return
  if [ -e "$2" ] || [ -L "$2" ]; then stop "$1" not_a_folder; fi
  printf 'differs %s\n' "$1"
}

check_file() { # NUMBER PATH DIGEST MODE
  if [ -d "$2" ]; then stop "$1" is_a_folder; fi
  if [ -e "$2" ] && [ ! -f "$2" ]; then stop "$1" not_a_file; fi
  if [ -f "$2" ] && [ ! -L "$2" ] && as_declared "$2" "$4" && [ "$(digest "$2")" = "$3" ]; then return; fi
  printf 'differs %s\n' "$1"
}

own() { # NUMBER PATH
  [ -z "$owner" ] || chown "$owner" "$2" || stop "$1" owner
  [ -z "$group" ] || chgrp "$group" "$2" || stop "$1" group
}

make_folder() { # NUMBER PATH MODE
  [ -d "$2" ] && return
  (umask 022 && mkdir -p "$2") || stop "$1" folder
  own "$1" "$2"
  chmod "$3" "$2" || stop "$1" mode
}

unpack() {
  mkdir "$archive.d" || stop 0 unpack
  folder=$archive.d
  (cd "$folder" && tar -xf "$archive") || stop 0 unpack
}

put_file() { # NUMBER PATH DIGEST MODE MODE_OF_NEW_FILES
  if [ -d "$2" ]; then stop "$1" is_a_folder; fi
  parent=${2%/*}/
  [ -d "$parent" ] || (umask 022 && mkdir -p "$parent") || stop "$1" folder
  new=$parent.legwork-$token.$1
  cat <"$folder/$1" >"$new" || stop "$1" write
  mode=${4:-$5}
  if [ -f "$2" ] && [ ! -L "$2" ]; then
    if [ -z "$4" ]; then mode=$(stat -c %a "$2" 2>/dev/null || stat -f %Mp%Lp "$2") || stop "$1" mode; fi
    chown "$(stat -c %u:%g "$2" 2>/dev/null || stat -f %u:%g "$2")" "$new" 2>/dev/null || :
  fi
  own "$1" "$new"
  chmod "$mode" "$new" || stop "$1" mode
  sync "$new" 2>/dev/null || sync
  [ "$(digest "$new")" = "$3" ] || stop "$1" digest
  mv -f "$new" "$2" || stop "$1" replace
  new=
  sync "$parent" 2>/dev/null || :
}
