#!/usr/bin/env bash
# Run by srun once on each node of a job, before its containers start. Reads RUN_DIR and UPLIFT_*; writes nothing but
# its findings; ends with 1 if the node is not fit.
set -euo pipefail

node="$(hostname)"
bad=0
finding() {
  printf 'uplift: node %s: %s\n' "$node" "$1" >&2
  bad=1
}

[[ -d "$RUN_DIR" && -w "$RUN_DIR" ]] || finding "cannot write $RUN_DIR: shared storage is not mounted here"

gpus="$(nvidia-smi -L 2>/dev/null || true)"
count="$(grep -c '^GPU ' <<<"$gpus" || true)"
[[ "$count" -eq "$UPLIFT_GPUS" ]] || finding "$count GPUs, the plan needs $UPLIFT_GPUS"
named="$(grep -c "$UPLIFT_GPU_NAME" <<<"$gpus" || true)"
[[ "$named" -eq "$count" ]] ||
  finding "$((count - named)) of its GPUs are no $UPLIFT_GPU_NAME: the plan's memory fit does not hold"

# Ray and torch reach each other by these names: a node whose DNS is broken, or that resolves another one to its own
# loopback, hangs the whole job.
read -r -a hosts <<<"$UPLIFT_HOSTS"
for host in "${hosts[@]}"; do
  address="$(getent ahostsv4 "$host" 2>/dev/null | awk 'NR == 1 { print $1 }' || true)"
  if [[ -z "$address" ]]; then
    finding "cannot resolve $host"
  elif [[ "${#hosts[@]}" -gt 1 && "$address" == 127.* ]]; then
    finding "resolves $host to $address, which no other node reaches"
  fi
done
if [[ -n "$UPLIFT_SERVICE_HOST" ]] && ! getent ahostsv4 "$UPLIFT_SERVICE_HOST" >/dev/null 2>&1; then
  finding "cannot resolve the environment service $UPLIFT_SERVICE_HOST"
fi

shm="$(df --output=size -BG /dev/shm 2>/dev/null | tail -n 1 | tr -dc 0-9 || true)"
[[ "${shm:-0}" -ge "$UPLIFT_SHM_GIB" ]] || finding "/dev/shm has ${shm:-0} GiB, the target says $UPLIFT_SHM_GIB"

if [[ "$UPLIFT_EFA" -gt 0 ]]; then
  efa="$(find /dev/infiniband -name 'uverbs*' 2>/dev/null | wc -l)"
  [[ "$efa" -ge "$UPLIFT_EFA" ]] ||
    finding "$efa EFA devices, the instance has $UPLIFT_EFA: NCCL would fall back to TCP and say nothing"
fi

# A port that an outgoing connection happens to hold breaks a start now and then (RL#951): said, not refused.
if read -r low high 2>/dev/null </proc/sys/net/ipv4/ip_local_port_range; then
  reserved="$(cat /proc/sys/net/ipv4/ip_local_reserved_ports 2>/dev/null || true)"
  read -r -a ranges <<<"$UPLIFT_PORTS"
  for range in "${ranges[@]}"; do
    if [[ "${range#*-}" -ge "$low" && "${range%-*}" -le "$high" && -z "$reserved" ]]; then
      printf 'uplift: node %s: note: ports %s lie in its ephemeral range %s-%s, and none is reserved\n' \
        "$node" "$range" "$low" "$high" >&2
    fi
  done
fi
exit "$bad"
