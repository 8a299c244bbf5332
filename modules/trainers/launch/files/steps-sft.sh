# The whole checkpoints of this stage, as the recipe counts steps: Automodel counts from 0, and a save that was cut off
# keeps its mark .incomplete.
saved_steps() {
  local folder
  for folder in "$trainer"/epoch_*_step_*; do
    if [[ -d "$folder" && ! -e "$folder/.incomplete" && "$folder" =~ _step_([0-9]+)$ ]]; then
      echo "$((10#${BASH_REMATCH[1]} + 1))"
    fi
  done
}
