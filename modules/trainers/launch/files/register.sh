check_model "$model" "$revision"
conversations="$RUN_DIR/data/probe-conversations.json"
for file in "$RUN_DIR/slurm/finish_checkpoint.py" "$RUN_DIR/slurm/register_model.py" "$conversations"; do
  [[ -s "$file" ]] || fail "$file is missing or empty: uplift writes it"
done

begin_work "reads $model"
end_work "$model is no model to start from" \
  python "$RUN_DIR/slurm/register_model.py" --model "$model" --conversations "$conversations" \
  --checkpoint "$job" --output "$partial"
