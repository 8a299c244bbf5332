# The trainer has ended with $status. 0: the stage is finished. 75: requeued, it goes on from its newest checkpoint.
# 79: the trainer ended well before the last step and the job does not start itself again.
[[ "$status" -eq 0 ]] || exit "$status"
# To the log and to Slurm's output (3).
say() {
  printf 'uplift: %s: %s\n' "$UPLIFT_JOB_KEY" "$1"
  printf 'uplift: %s: %s\n' "$UPLIFT_JOB_KEY" "$1" >&3
}
step_now="$(newest_step)"
restarts="${SLURM_RESTART_COUNT:-0}"
if is_finished; then
  say "step $steps of $steps is saved: finished"
  exit 0
elif [[ "$step_now" -le "$step_before" ]]; then
  say "not finished and not requeued: the trainer ended with 0, but no step after $step_before of $steps was saved: see $log"
elif [[ "$restarts" -ge "$most_restarts" ]]; then
  say "not finished and not requeued: step $step_now of $steps after $restarts restarts, the most the plan allows: submit it again to go on"
elif ! scontrol requeue "${SLURM_JOB_ID:-}"; then
  say "not finished and not requeued: step $step_now of $steps, and scontrol requeue refused: submit it again to go on"
else
  say "step $step_now of $steps (this job began at $step_before): requeued, restart $((restarts + 1)) of at most $most_restarts"
  exit 75
fi
exit 79
