#!/bin/bash
# Runs the FFMA streams, each in a call of its own: a stream that overwrites its loop counter hangs
# the GPU (one did, for 200 s).
#
# usage: sass/measure_streams.sh      (from kernels/lab, after make streams)
failed=0
for stream in build/streams/*.cubin; do
  timeout 4 build/run_streams "$stream" || { echo "FAILED $stream, status $?"; failed=$((failed + 1)); }
  if [ $failed -gt 2 ]; then exit 1; fi
done
