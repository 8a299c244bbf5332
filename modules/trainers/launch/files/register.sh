check_model "$model" "$revision"
conversations="$RUN_DIR/data/probe-conversations.json"
for file in "$RUN_DIR/slurm/finish_checkpoint.py" "$RUN_DIR/slurm/register_model.py" "$conversations"; do
  [[ -s "$file" ]] || fail "$file is missing or empty: uplift writes it"
done

begin_work "reads $model"
findings="$RUN_DIR/logs/$job/findings.txt"
if ! in_image python "$RUN_DIR/slurm/register_model.py" --model "$model" --conversations "$conversations" \
  --checkpoint "$job" --output "$partial" 2>"$findings"; then
  cat "$findings" >&3
  broken "$model is no model to start from: the lines above say why"
fi
# Only now it has its name: who finds the folder finds all of it.
mv -- "$partial" "$out"
echo "uplift: $UPLIFT_JOB_KEY: $out is complete"
