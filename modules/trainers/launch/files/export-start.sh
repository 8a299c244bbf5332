check_model "$start_from" "$revision"
[[ -f "$RUN_DIR/slurm/finish_checkpoint.py" ]] || fail "$RUN_DIR/slurm/finish_checkpoint.py is missing: uplift plan --out writes it"

# Neither trainer nor converter looks whose checkpoint it is (RL#415).
trainer="$RUN_DIR/trainer/$train"
found="$(cat "$trainer/config.sha256" 2>/dev/null || true)"
[[ "$found" == "$config_sha256" ]] ||
  fail "$trainer holds checkpoints of ${found:-no known configuration}, the plan's has sha256 $config_sha256"
