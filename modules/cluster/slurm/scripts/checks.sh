# shellcheck shell=bash
# What makes a node unfit for jobs. Sourced by prolog.sh and health.sh beside it. Comes in: node.env of the same folder. Each
# check prints one line that says why, and returns 1, or prints nothing. Nothing is changed but a file of the shared storage.
# A command that hangs counts as one that fails: a driver or a mount that is gone answers with silence.

UPLIFT_TOOLS=${UPLIFT_TOOLS:-/opt/uplift}
# Slurm starts these scripts with hardly any environment.
export PATH="${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# shellcheck source=/dev/null
source "$UPLIFT_TOOLS/node.env"
: "${EXPECTED_GPUS:?}" "${EXPECTED_EFA:?}" "${SHARED:?}" "${WRITE_AS:?}" "${HOSTS:?}" "${CLOCK_HOST?}" "${CLOCK_PORT?}"

check_gpus() {
  local listed count
  if ! listed=$(timeout --kill-after=5 30 nvidia-smi -L 2>/dev/null); then
    echo "nvidia-smi -L fails or does not answer within 30 s"
    return 1
  fi
  count=$(grep -c '^GPU ' <<<"$listed" || true)
  if [ "$count" -ne "$EXPECTED_GPUS" ]; then
    echo "$count GPUs instead of $EXPECTED_GPUS"
    return 1
  fi
}

check_efa() {
  [ "$EXPECTED_EFA" -gt 0 ] || return 0
  local count
  count=$(find "${UPLIFT_SYS:-/sys}/class/infiniband" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)
  # More is another network's device; fewer makes NCCL fall back to TCP without a word.
  if [ "$count" -lt "$EXPECTED_EFA" ]; then
    echo "$count EFA devices instead of $EXPECTED_EFA"
    return 1
  fi
}

check_dns() {
  local host
  for host in $HOSTS; do
    if ! timeout 10 getent ahosts "$host" >/dev/null 2>&1; then
      echo "$host does not resolve"
      return 1
    fi
  done
}

check_shared_storage() {
  # Without the mount a write would land in the container, and the job's checkpoints with it.
  if ! timeout 10 mountpoint --quiet "$SHARED"; then
    echo "$SHARED is not mounted"
    return 1
  fi
  # As the user of runs: the storage may refuse root, and what counts is that runs can write.
  # shellcheck disable=SC2016 # expanded by the inner shell
  if ! timeout --kill-after=5 30 setpriv --reuid="$WRITE_AS" --regid="$WRITE_AS" --clear-groups bash -c \
    'mkdir -p "$1" && echo "$3" >"$1/$2" && [ "$(cat "$1/$2")" = "$3" ]' \
    - "$SHARED/home/uplift/.node-checks" "$(node_name)" "$$" 2>/dev/null; then
    echo "$SHARED cannot be written within 30 s"
    return 1
  fi
}

# Against a service of the platform: tokens and Slurm's credentials are refused when clocks differ. A service that does not
# answer is no fault of this node.
check_clock() {
  [ -n "$CLOCK_HOST" ] || return 0
  local date theirs ours apart
  date=$(http_date) || return 0
  theirs=$(date --date="$date" +%s 2>/dev/null) || return 0
  ours=$(date +%s)
  apart=$((ours > theirs ? ours - theirs : theirs - ours))
  if [ "$apart" -gt 30 ]; then
    echo "its clock is $apart s away from $CLOCK_HOST's"
    return 1
  fi
}

http_date() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  timeout 10 bash -c '
    exec 3<>"/dev/tcp/$1/$2" && printf "HEAD / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" "$1" >&3 &&
      sed -nE "s/^[Dd]ate: *([^\r]*)\r?$/\1/p" <&3 | head -n 1 | grep .' - "$CLOCK_HOST" "$CLOCK_PORT" 2>/dev/null
}

# A worker's hostname is its name in Slurm.
node_name() { echo "${SLURMD_NODENAME:-$(hostname)}"; }

# The first check that fails; its line is printed.
all_checks() {
  check_gpus && check_efa && check_dns && check_shared_storage && check_clock
}
