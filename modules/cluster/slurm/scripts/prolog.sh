#!/usr/bin/env bash
# Slurm runs this as root on each node of a job before it starts. Comes in: SLURM_*, and /opt/uplift of the worker. If the node
# is unfit it prints why, drains the node with that reason and ends with 1: Slurm then gives the job another node.
set -uo pipefail

UPLIFT_TOOLS=${UPLIFT_TOOLS:-/opt/uplift}
# shellcheck source=checks.sh
source "$UPLIFT_TOOLS/checks.sh"

if ! reason=$(all_checks); then
  echo "uplift: $(node_name): $reason"
  # Slurm drains the node by itself, but says only "Prolog error"; it keeps a reason that is there already.
  timeout 20 scontrol update "nodename=$(node_name)" state=drain "reason=uplift: $reason" || true
  exit 1
fi

# Which job has which GPU, for dcgm-exporter: a file a GPU that holds the job's id.
if [ -n "${JOB_MAPPING:-}" ] && [ -n "${SLURM_JOB_GPUS:-}" ]; then
  mkdir -p "$JOB_MAPPING"
  IFS=, read -ra gpus <<<"$SLURM_JOB_GPUS"
  for gpu in "${gpus[@]}"; do printf '%s' "$SLURM_JOB_ID" >"$JOB_MAPPING/$gpu"; done
fi
exit 0
