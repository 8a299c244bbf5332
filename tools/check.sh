#!/usr/bin/env bash
# npm run check: format, lint, types, import rules, dead code, generated files, unit tests. Cheapest first.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/node_modules/.bin:$PATH"
step() { printf '\n== %s\n' "$1"; }

step "format and lint"
biome check --error-on-warnings .
step "types"
tsc --noEmit -p .
step "import rules"
depcruise --config .dependency-cruiser.cjs --output-type err schemas modules recipes stacks bench
step "dead code"
knip --no-progress
step "generated files"
tsx tools/generate.ts --check
tsx tools/stand-in-tasks.ts --check
step "unit tests"
vitest run --project unit
