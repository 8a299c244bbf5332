# The whole checkpoints of this stage: NeMo-RL saves into tmp_step_N and renames it when all of it is there.
saved_steps() {
  local folder
  for folder in "$trainer"/step_*; do
    if [[ -d "$folder" && "$folder" =~ /step_([0-9]+)$ ]]; then echo "$((10#${BASH_REMATCH[1]}))"; fi
  done
}
