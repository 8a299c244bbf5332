out="$RUN_DIR/checkpoints/$job"
partial="$out.partial"
if [[ -f "$out/uplift-manifest.json" ]]; then
  echo "uplift: $UPLIFT_JOB_KEY: $out is complete: nothing to do"
  exit 0
fi
[[ ! -e "$out" ]] || fail "$out exists without uplift-manifest.json, so this job did not make it: move it away"

# The image as a file, if it was imported to shared storage.
if [[ -n "$squash_file" && -r "$squash_file" ]]; then container="$squash_file"; fi
in_image() {
  srun --nodes=1 --ntasks=1 --container-image="$container" --container-mounts="$mounts" --container-workdir="$workdir" \
    --no-container-mount-home --export=ALL "$@"
}
# Findings go to Slurm's output (3), everything else to the run's own log; UPLIFT_LOG says that the two are one.
begin_work() {
  local logs="$RUN_DIR/logs/$job"
  mkdir -p "$logs" "$RUN_DIR/checkpoints"
  log="${UPLIFT_LOG:-$logs/batch-${SLURM_JOB_ID:-0}.log}"
  echo "uplift: $UPLIFT_JOB_KEY: $1; goes on in $log"
  exec 3>&2 >>"$log" 2>&1
  # What a killed job left: converters refuse a folder that exists, and half a model is none.
  rm -rf -- "$partial"
}
# 1: there was something to do, and it did not work.
broken() {
  printf 'uplift: %s: %s\n' "$UPLIFT_JOB_KEY" "$1" >&3
  exit 1
}
# The work's last step: a program that finds what is wrong with the model, and writes its manifest only if nothing is. Before it
# comes what to say of a model that it refuses.
end_work() {
  local refused="$1" findings="$RUN_DIR/logs/$job/findings.txt"
  shift
  if ! in_image "$@" 2>"$findings"; then
    cat "$findings" >&3
    broken "$refused: the lines above say why"
  fi
  # Only now it has its name: who finds the folder finds all of it.
  mv -- "$partial" "$out"
  echo "uplift: $UPLIFT_JOB_KEY: $out is complete"
}
