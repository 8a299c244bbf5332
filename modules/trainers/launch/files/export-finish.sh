findings="$RUN_DIR/logs/$job/findings.txt"
if ! in_image python3 "$RUN_DIR/slurm/finish_checkpoint.py" --folder "$partial" --start "$start_from" --checkpoint "$job" \
  --config "$model_config" --may-lack "$may_lack" 2>"$findings"; then
  cat "$findings" >&3
  broken "$partial is no checkpoint to go on from: the lines above say why"
fi
# Only now it has its name: who finds the folder finds all of it.
mv -- "$partial" "$out"
echo "uplift: $UPLIFT_JOB_KEY: $out is complete"
