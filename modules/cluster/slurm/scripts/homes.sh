#!/usr/bin/env bash
# homes.sh SHARED PASSWD: people's homes on the shared storage, made once and never changed after. Runs before login and worker pods,
# as root. PASSWD: the lines of the people.
set -euo pipefail

shared=$1
passwd=$2

make() { # FOLDER UID MODE
  [ ! -d "$1" ] || return 0
  # Under another name until it is whole, so that a failure leaves nothing that looks made.
  mkdir -p "$1.new" && chown "$2:$2" "$1.new" && chmod "$3" "$1.new" && mv -T "$1.new" "$1" && return
  echo "homes: cannot make $1 for uid $2: the storage refuses root (NFS: export it with no_root_squash), or make it by hand" >&2
  exit 1
}

[ -d "$shared/home" ] || { mkdir -p "$shared/home" && chmod 0755 "$shared/home"; }
while IFS=: read -r name _ uid _; do make "$shared/home/$name" "$uid" 0750; done <"$passwd"
