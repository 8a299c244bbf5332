# Slurm signals this script only. torchrun dies of USR1, and srun hands it on to every torchrun: so it goes to the
# workers themselves, on this node; Automodel's ranks tell each other. A worker is known by our key in its environment
# and by the module in its command line.
signalled=0
# shellcheck disable=SC2329 # the trap below calls it
forward_signal() {
  signalled=1
  echo "uplift: $UPLIFT_JOB_KEY: USR1 from Slurm: the workers save and end"
  local process line
  for process in /proc/[0-9]*; do
    line="$(tr '\0' ' ' 2>/dev/null <"$process/cmdline" || true)"
    [[ "$line" == *nemo_automodel.cli.app* && "$line" != *torchrun* ]] || continue
    # Not grep -q: it would end the pipe early, which pipefail takes for a failure.
    tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -xF "UPLIFT_JOB_KEY=$UPLIFT_JOB_KEY" >/dev/null || continue
    kill -USR1 "${process#/proc/}" || true
  done
}
# Before srun, so that an early signal does not end this script.
trap forward_signal USR1

srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --kill-on-bad-exit=1 \
  --container-image="$container" --container-mounts="$mounts" --container-workdir="$workdir" \
  --no-container-mount-home --export=ALL "${command[@]}" &
srun_pid=$!

# A signal ends `wait` early with 138 (128 + USR1); the trainer then saves and ends by itself.
while true; do
  status=0
  wait "$srun_pid" || status=$?
  [[ "$signalled" -eq 1 && "$status" -eq 138 ]] || break
  signalled=0
done
echo "uplift: $UPLIFT_JOB_KEY: srun ended with $status"
