#!/usr/bin/env bash
# worker-setup.sh UID: once before slurmd starts, as root in an init container. Makes the folders of scratch that every
# user may write, and gives the files of /uplift/job-secrets, which only root may read, to the user of runs alone.
set -euo pipefail

uid=$1
scratch=${UPLIFT_SCRATCH:-/scratch}
from=${UPLIFT_JOB_SECRETS:-/uplift/job-secrets}
to=${UPLIFT_SECRETS:-/run/secrets/uplift}

for folder in tmp enroot/run enroot/cache enroot/data enroot/tmp; do
  mkdir -p "$scratch/$folder"
  chmod 1777 "$scratch/$folder"
done

if [ -d "$from" ]; then
  # Not the hidden folders through which Kubernetes swaps a Secret's content.
  find -L "$from" -maxdepth 1 -type f -not -name '.*' -exec install --mode=0400 --owner="$uid" --group="$uid" --target-directory="$to" {} +
fi
