#!/bin/bash
# Checks and times everything, as the runs in results/ did.
#
# usage: harness/measure.sh OUT_DIR [SECONDS_PER_SHAPE]      (from kernels/lab, after make)
set -u
if [ $# -lt 1 ]; then sed -n '2,5p' "$0"; exit 2; fi
out=$1
seconds=${2:-0.3}
mkdir -p "$out"
export JSONL="$out/results.jsonl"
{
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,temperature.gpu,power.draw --format=csv,noheader
  date
  # A wrong patch can hang the GPU: one call each, so that only its own group is lost.
  for group in mid wide big huge skinny small; do
    timeout 60 build/lab_bench "$group" "$seconds" || echo "FAILED $group, status $?"
  done
} 2>&1 | tee "$out/log"
