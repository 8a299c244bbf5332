# What a login shell may carry and colocated vLLM cannot bear (RL#2471).
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF

# What ray.sub reads. It writes COMMAND to a file: no secret is in it.
COMMAND="$(printf '%q ' "${command[@]}")"
export CONTAINER="$container" MOUNTS="$mounts" COMMAND
export SLURM_JOB_ACCOUNT="${SLURM_JOB_ACCOUNT:-$account}"
# ray.sub makes it the containers' working folder: the image's code, not a copy that may differ from it (RL#1294).
export SLURM_SUBMIT_DIR="$workdir"

# ray.sub comes out of the image, so that the two always belong together.
ray_sub="$logs/ray-${SLURM_JOB_ID:-0}.sub"
srun --nodes=1 --ntasks=1 --container-image="$container" --no-container-mount-home cat "$workdir/ray.sub" \
  >"$ray_sub.new" || fail "cannot read $workdir/ray.sub out of $container"
if ! bash -n "$ray_sub.new" || ! grep -q DRIVER_COMMAND_FILE "$ray_sub.new"; then fail "$ray_sub.new is no ray.sub"; fi
mv "$ray_sub.new" "$ray_sub"
# What the driver prints is its progress: line by line, not in blocks.
export PYTHONUNBUFFERED=1
bash "$ray_sub" &
ray_pid=$!
# ray.sub keeps the driver's output in a file of its own: it belongs in the log as well. tail looks once more after the end.
driver_log="$BASE_LOG_DIR/${SLURM_JOB_ID:-0}${SLURM_RESTART_COUNT:+-$SLURM_RESTART_COUNT}-logs/ray-driver.log"
tail --pid="$ray_pid" -n +1 -F "$driver_log" 2>/dev/null &
tail_pid=$!
status=0
wait "$ray_pid" || status=$?
wait "$tail_pid" || true
echo "uplift: $UPLIFT_JOB_KEY: ray.sub ended with $status"
