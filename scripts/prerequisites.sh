#!/usr/bin/env bash
# Installs what the tests and checks need of the system and is not there: git, a C compiler (for the race
# detector), PostgreSQL, sshd, HAProxy, sudo, Ansible, Chromium, shellcheck, bsdtar, dpkg-deb,
# rpm, man, completions of bash, jq, Python, setsid. That needs root and apt; without them it lists what is missing.
# It starts no service: the tests run their own in temporary folders.
set -euo pipefail

missing=()
need() { # need PACKAGE... -- a command that succeeds when they are there
  local packages=()
  while [[ $1 != -- ]]; do packages+=("$1"); shift; done
  shift
  "$@" >/dev/null 2>&1 || missing+=("${packages[@]}")
}
postgres_there() { compgen -G '/usr/lib/postgresql/*/bin/initdb' || command -v initdb; }
sshd_there() { [[ -x /usr/sbin/sshd ]] || command -v sshd; }
haproxy_there() { [[ -x /usr/sbin/haproxy ]] || command -v haproxy; }
compiler_there() { command -v "${CC:-gcc}" && [[ $(uname) != Linux || -e /usr/include/stdlib.h ]]; }

need git -- command -v git
need make -- command -v make
need gcc libc6-dev -- compiler_there
need postgresql -- postgres_there
need openssh-server -- sshd_there
need sudo -- command -v sudo
need haproxy -- haproxy_there
need openssh-client -- command -v ssh-keygen
need chromium -- command -v chromium
need ansible-core -- command -v ansible-playbook
need shellcheck -- command -v shellcheck
need libarchive-tools -- command -v bsdtar
need dpkg -- command -v dpkg-deb
need rpm -- command -v rpm
need man-db -- command -v man
need bash-completion -- test -e /usr/share/bash-completion/bash_completion
need jq -- command -v jq
need python3 -- command -v python3
need util-linux -- command -v setsid

[[ ${#missing[@]} -gt 0 ]] || exit 0
if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
  echo "prerequisites: not installed, and only root with apt can do it here: ${missing[*]}" >&2
  exit 0
fi

echo "prerequisites: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
if [[ ! -e /usr/sbin/policy-rc.d ]]; then # no package starts its service
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
if [[ ! -e /etc/postgresql-common/createcluster.conf ]]; then # and PostgreSQL makes no database of its own
  mkdir -p /etc/postgresql-common
  echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
fi
options=(-y -q --no-install-recommends -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold)
apt-get -q -o Acquire::Retries=3 update </dev/null
apt-get "${options[@]}" install "${missing[@]}" </dev/null
