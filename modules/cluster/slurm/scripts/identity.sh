#!/usr/bin/env bash
# identity.sh ADDED OUT: this image's passwd and group with the lines of ADDED/passwd and ADDED/group → OUT, and nsswitch.conf
# asking Slurm first where the image has its lookup. Ends with 1 if a name or id is another's in this image.
set -euo pipefail

added=$1
out=$2
etc=${UPLIFT_ETC:-/etc}
libraries=${UPLIFT_LIBRARIES:-/usr/lib}

for file in passwd group; do
  while IFS=: read -r name _ id _; do
    # "id:name" of everybody whose name or id this is.
    while IFS=: read -r other _ other_id _; do
      if [[ "$name:$id" != "$other:$other_id" && ("$name" == "$other" || "$id" == "$other_id") ]]; then
        echo "identity: $file: $name ($id) clashes with this image's $other ($other_id): choose another name or uid" >&2
        exit 1
      fi
    done <"$etc/$file"
  done <"$added/$file"
  cat "$etc/$file" "$added/$file" >"$out/$file"
  chmod 0644 "$out/$file"
done

# Slinky's worker image sets this and then lets authselect write the file anew. Slurm's lookup answers inside jobs with what
# slurmctld sent along, so that a new user's job knows its name on a worker that started before there was such a user.
if compgen -G "$libraries/*/libnss_slurm.so*" >/dev/null; then
  sed -E 's/^(passwd|group):[[:space:]]*(slurm[[:space:]]+)?/\1: slurm /' "$etc/nsswitch.conf" >"$out/nsswitch.conf"
else
  cat "$etc/nsswitch.conf" >"$out/nsswitch.conf"
fi
chmod 0644 "$out/nsswitch.conf"
