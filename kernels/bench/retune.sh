#!/usr/bin/env bash
# Takes over what `gemm_bench --mode=tune` recorded on the card: the measurements, the table, and the
# golden choices, which go into one commit; then says what the choice is worth.
#
#   kernels/bench/retune.sh tune_f32.jsonl [regret_f32.jsonl ...]
#
# The first file is of f32 or f64 alone and replaces the one of its type in bench/results. The others
# are runs of `--mode=regret` to judge by, of the same kernels. Needs the release build, and no GPU.

set -euo pipefail
cd "$(dirname "$0")/../.."
readonly results=kernels/bench/results bench=build/release/bin/gemm_bench

fail() {
  echo "retune.sh: $*" >&2
  exit 1
}

(($# > 0)) || fail "name the file that --mode=tune --json wrote"
tuned=$1
shift
type=$(grep -om1 '"dtype":"f[0-9]*"' "$tuned" | grep -o 'f[0-9]*') || fail "$tuned has no times"

build() { cmake --build --preset release --target gemm_bench golden_choices_test tuning_table_test; }

judge() { "$bench" --mode=regret "$@" | tail -n 3; }

# Where the run wrote its records is nobody's business.
renewed=$(mktemp)
trap 'rm -f "$renewed"' EXIT
sed -E '1s#--json \S*/#--json #' "$tuned" >"$renewed"
build
echo "Before:"
for file in "$@"; do judge --from "$file"; done
cp "$renewed" "$results/tune_$type.jsonl"
cat "$results"/tune_f32.jsonl "$results"/tune_f64.jsonl >"$renewed"
"$bench" --mode=tune --from "$renewed" --out kernels/tuning/sm_90.inc
build
"$bench" --mode=explain --shapes=golden >tests/kernels/golden_choices.txt
echo "After, and the tuned products themselves, each by the others' rows:"
for file in "$@"; do judge --from "$file"; done
judge --from "$results/tune_$type.jsonl" --unseen
build/release/bin/tuning_table_test --gtest_brief=1
build/release/bin/golden_choices_test --gtest_brief=1
