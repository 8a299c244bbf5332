#!/bin/sh
# install-gvisor.sh: puts gVisor of GVISOR_RELEASE on the node whose folders lie under /host, tells its containerd of the
# runtime "runsc", and starts containerd anew if that was news; running containers go on. Run again, it changes nothing.
# The programs have to have the checksums that lie beside this script (schemas/pins.ts), not those of the server they are from.
set -eu

host=${UPLIFT_HOST:-/host}
programs=$host/usr/local/bin
containerd=$host/etc/containerd
dropin=$containerd/config.d/uplift-gvisor.toml
from=$GVISOR_URL/$GVISOR_RELEASE/$(uname -m)
sums=$(cd "$(dirname "$0")" && pwd)/sha512.$(uname -m)

if ! grep -qF '/etc/containerd/config.d/*.toml' "$containerd/config.toml"; then
  echo "gvisor: $containerd/config.toml does not import config.d/*.toml: this node's image is not one of EKS'" >&2
  exit 1
fi

if [ "$(cat "$programs/.uplift-gvisor" 2>/dev/null)" != "$GVISOR_RELEASE" ]; then
  if [ ! -f "$sums" ]; then
    echo "gvisor: no programs are pinned for $(uname -m)" >&2
    exit 1
  fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  for program in runsc containerd-shim-runsc-v1; do
    wget -q -O "$work/$program" "$from/$program"
  done
  (cd "$work" && sha512sum -c "$sums" >/dev/null) || {
    echo "gvisor: what $from gives is not release $GVISOR_RELEASE as it was pinned" >&2
    exit 1
  }
  for program in runsc containerd-shim-runsc-v1; do
    # Renamed into place: a sandbox that starts meanwhile finds the old one or the new one.
    cp "$work/$program" "$programs/.$program.new"
    chmod 0755 "$programs/.$program.new"
    mv "$programs/.$program.new" "$programs/$program"
  done
  echo "$GVISOR_RELEASE" >"$programs/.uplift-gvisor"
  echo "gvisor: release $GVISOR_RELEASE is in $programs"
fi

# containerd 2 reads version 3 of its configuration and calls the plugin otherwise.
version=$(sed -n 's/^version *= *//p' "$containerd/config.toml" | head -n 1)
case ${version:-2} in
  3) plugin=io.containerd.cri.v1.runtime ;;
  2) plugin=io.containerd.grpc.v1.cri ;;
  *) echo "gvisor: version $version of containerd's configuration is not known here" >&2; exit 1 ;;
esac
wanted="version = ${version:-2}
[plugins.'$plugin'.containerd.runtimes.runsc]
  runtime_type = 'io.containerd.runsc.v1'"
if [ "$(cat "$dropin" 2>/dev/null)" != "$wanted" ]; then
  mkdir -p "$containerd/config.d"
  printf '%s\n' "$wanted" >"$dropin.new"
  mv "$dropin.new" "$dropin"
  nsenter --target 1 --mount -- systemctl restart containerd
  echo "gvisor: containerd knows the runtime runsc"
fi
