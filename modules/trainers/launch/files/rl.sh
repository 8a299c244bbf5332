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
status=0
bash "$ray_sub" || status=$?
echo "uplift: $UPLIFT_JOB_KEY: ray.sub ended with $status"
