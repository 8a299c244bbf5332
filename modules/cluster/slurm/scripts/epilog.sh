#!/usr/bin/env bash
# Slurm runs this as root on each node of a job after it has ended. Comes in: SLURM_*, and /opt/uplift of the worker. Ends
# what the job's user left running if no other job of theirs is here, empties what they left in memory and scratch, and ends with
# 1, which drains the node, if GPU memory is not free after a minute.
set -uo pipefail

UPLIFT_TOOLS=${UPLIFT_TOOLS:-/opt/uplift}
export PATH="${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# shellcheck source=/dev/null
source "$UPLIFT_TOOLS/node.env"
: "${SCRATCH:?}"
node=${SLURMD_NODENAME:-$(hostname)}
# A driver and a server keep some of it; a forgotten process keeps gigabytes.
free_mib=2048
tries=${UPLIFT_EPILOG_TRIES:-12}

if [ -n "${JOB_MAPPING:-}" ] && [ -n "${SLURM_JOB_GPUS:-}" ]; then
  IFS=, read -ra gpus <<<"$SLURM_JOB_GPUS"
  for gpu in "${gpus[@]}"; do rm -f "$JOB_MAPPING/$gpu"; done
fi

# System users run the node itself; runs have uid 990. A squeue that fails must end nobody.
user=${SLURM_JOB_UID:-0}
if [ "$user" -ge 990 ] && here=$(timeout 20 squeue --noheader --format=%A --user="$user" --nodelist="$node" --states=running); then
  if ! grep -qvx "${SLURM_JOB_ID:-}" <<<"${here:-${SLURM_JOB_ID:-}}"; then
    pkill -KILL --euid "$user" || true
    # Shared memory counts against the worker's memory limit until it is deleted.
    find /dev/shm "$SCRATCH/tmp" -mindepth 1 -user "$user" -delete 2>/dev/null || true
  fi
fi

# Only this job's GPUs: others may be another job's.
[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0
for ((try = 1; ; try++)); do
  busy=$(timeout --kill-after=5 30 nvidia-smi --id="$SLURM_JOB_GPUS" --query-gpu=index,memory.used --format=csv,noheader,nounits 2>/dev/null) ||
    busy="unknown, 999999"
  busy=$(awk -F', *' -v most="$free_mib" '$2 + 0 > most { printf "%sGPU %s still holds %s MiB", (n++ ? ", " : ""), $1, $2 }' <<<"$busy")
  [ -n "$busy" ] || exit 0
  [ "$try" -lt "$tries" ] || break
  sleep "${UPLIFT_EPILOG_PAUSE:-5}"
done
echo "uplift: $node: after job ${SLURM_JOB_ID:-}: $busy"
timeout 20 scontrol update "nodename=$node" state=drain "reason=uplift: after job ${SLURM_JOB_ID:-}: $busy" || true
exit 1
