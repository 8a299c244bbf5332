set -euo pipefail

# 78: it cannot run, and nothing was trained (sysexits' EX_CONFIG).
fail() {
  printf 'uplift: %s: %s\n' "$UPLIFT_JOB_KEY" "$1" >&2
  exit 78
}

# Whoever submits gives the run's own key and folder.
export UPLIFT_JOB_KEY="${UPLIFT_JOB_KEY:-$key}"
[[ -n "${RUN_DIR:-}" ]] || fail "RUN_DIR is not set: give the run's folder on shared storage, for example $mount/runs/run-1"
[[ "$RUN_DIR" =~ ^/[A-Za-z0-9._/-]*[A-Za-z0-9._-]$ ]] ||
  fail "RUN_DIR is $RUN_DIR: an absolute path of letters, digits, . _ - is needed (lists of mounts split at commas and colons)"
[[ "$RUN_DIR" == "$mount"/* ]] || fail "RUN_DIR is $RUN_DIR: the containers see only $mount"
[[ -d "$RUN_DIR" && -w "$RUN_DIR" ]] || fail "RUN_DIR $RUN_DIR is no folder that this user can write"
export RUN_DIR
# Configurations make the W&B id of it: a restart must find the same run, and W&B takes no / # ? % : in an id.
export RUN_ID="${RUN_ID:-${RUN_DIR##*/}}"
[[ "$RUN_ID" =~ ^[A-Za-z0-9._-]{1,64}$ ]] ||
  fail "RUN_ID is $RUN_ID: 1 to 64 letters, digits, . _ - are needed (default: the name of RUN_DIR's folder)"
