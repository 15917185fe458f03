#!/bin/bash
# ncu counters of one variant at 4096 cubed, three launches.
#
# usage: harness/profile.sh NAME [OUT_FILE]      NAME as lab_bench prints it, or a part of it
set -u
if [ $# -lt 1 ]; then sed -n '2,4p' "$0"; exit 2; fi
stall() { echo "smsp__average_warps_issue_stalled_$1_per_issue_active.ratio"; }
metrics=sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active
metrics+=,smsp__issue_active.avg.pct_of_peak_sustained_active
metrics+=,smsp__inst_executed.sum,sm__cycles_active.avg,sm__cycles_active.max
metrics+=,l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed
for reason in dispatch_stall no_instruction short_scoreboard not_selected wait mio_throttle; do
  metrics+=,$(stall $reason)
done
timeout 60 ncu --clock-control none -k 'regex:DataParallel|StreamK' --metrics "$metrics" \
  build/lab_bench one --once "$1" | tee "${2:-/dev/null}"
