# Trainers that save before the time limit end with 0 as finished ones do, Slurm calls both COMPLETED, and #SBATCH
# --requeue then does nothing: the checkpoint of the last step is what tells them apart.
trainer="$RUN_DIR/trainer/$job"
newest_step() {
  local newest
  newest="$(saved_steps | sort -n | tail -n 1)"
  echo "${newest:-0}"
}
is_finished() {
  # Not grep -q: it would end the pipe early, which pipefail takes for a failure.
  saved_steps | grep -xF -- "$steps" >/dev/null
}
if [[ "$(cat "$trainer/config.sha256" 2>/dev/null || true)" == "$config_sha256" ]] && is_finished; then
  echo "uplift: $UPLIFT_JOB_KEY: step $steps of $steps is saved: nothing to do"
  exit 0
fi
