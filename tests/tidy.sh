#!/usr/bin/env bash
# clang-tidy, as .clang-tidy says, on the given files of build/dev; without any, on all.
#
#   tests/tidy.sh [FILE.cc ...]

set -euo pipefail
cd "$(dirname "$0")/.."

if [[ $# -eq 0 ]]; then
  mapfile -t files < <(git ls-files '*.cc')
else
  files=("$@")
fi

# What this build leaves out (CUDA, where there is no nvcc) has no flags to be checked with.
built=()
for file in "${files[@]}"; do
  if grep -qF "\"file\": \"${PWD}/${file}\"" build/dev/compile_commands.json; then
    built+=("${file}")
  else
    echo "not in build/dev: ${file}"
  fi
done
if [[ ${#built[@]} -eq 0 ]]; then
  echo "nothing to check"
  exit 0
fi
echo "clang-tidy on ${#built[@]} files"
printf '%s\0' "${built[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/dev --quiet 2> >(grep -v 'warnings generated' >&2)
