end_work "$partial is no checkpoint to go on from" \
  python3 "$RUN_DIR/slurm/finish_checkpoint.py" --folder "$partial" --start "$start_from" --checkpoint "$job" \
  --config "$model_config" --may-lack "$may_lack"
