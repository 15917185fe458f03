#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test that needs no GPU.
#
#   tests/run.sh [--gpu] [--full] [--no-install]
#
#   --gpu         also the tests that need a GPU
#   --full        also the long ones: address and undefined-behaviour sanitizers on everything, the
#                 thread sanitizer on what it can judge, fuzzing, clang-tidy on every file, a soak,
#                 the bundle and the container image
#   --no-install  expect everything to be installed
#
# Builds into build/dev (and build/asan, build/tsan); Python packages go into build/venv.

set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^$/ s/^#\( \|$\)//p' "$0"; }

gpu=no
full=no
install=yes
for argument in "$@"; do
  case "${argument}" in
    --gpu) gpu=yes ;;
    --full) full=yes ;;
    --no-install) install=no ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

jobs=$(nproc)
summary=()
failed=0

close() {
  printf '\n== Summary of tests/run.sh\n'
  printf '%s\n' "${summary[@]}"
}
trap close EXIT

# stage NAME COMMAND...: runs it and notes how it went and how long it took.
stage() {
  local name=$1 started=${SECONDS} result=ok status=0
  shift
  printf '\n== %s\n' "${name}"
  "$@" || status=$?
  if [[ ${status} -ne 0 ]]; then
    result="FAILED (${status})"
    failed=$((failed + 1))
  fi
  summary+=("$(printf '%-44s %5d s  %s' "${name}" $((SECONDS - started)) "${result}")")
  return "${status}"
}

# The rest needs it: a failure ends the run.
required() { stage "$@" || exit 1; }
# A failure lets the rest go on.
checked() { stage "$@" || true; }

make_venv() {
  local wanted=build/venv/requirements.txt
  if cmp -s tests/e2e/requirements.txt "${wanted}"; then
    return
  fi
  rm -rf build/venv &&
    python3 -m venv build/venv &&
    build/venv/bin/pip install --quiet --disable-pip-version-check -r tests/e2e/requirements.txt &&
    cp tests/e2e/requirements.txt "${wanted}"
}

build() {
  cmake --preset "$1" -DGEMMD_TESTS=ON && cmake --build --preset "$1"
}

run_tests() {
  local preset=$1 labels=$2
  ctest --test-dir "build/${preset}" --output-on-failure --no-tests=error -j "${jobs}" -L "${labels}"
}

# As run_tests, where leaks and races end a test.
run_sanitized() {
  ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 \
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
    OPENBLAS_NUM_THREADS=1 \
    run_tests "$@"
}

if [[ ${install} == yes ]]; then
  if [[ ${full} == yes ]]; then
    required "Packages" deploy/install-deps.sh lint
  else
    required "Packages" deploy/install-deps.sh test
  fi
fi
required "Python environment" make_venv
required "Build (dev)" build dev
checked "Unit tests" run_tests dev '^unit'
checked "End-to-end tests" run_tests dev '^e2e$'
if [[ ${gpu} == yes ]]; then
  checked "GPU tests" run_tests dev '^gpu$'
fi

if [[ ${full} == yes ]]; then
  if stage "Build (asan)" build asan; then
    checked "Unit tests, address and UB sanitizers" run_sanitized asan '^unit'
    checked "End-to-end tests, address and UB sanitizers" run_sanitized asan '^e2e$'
    if [[ -x build/asan/bin/decode_fuzz ]]; then
      checked "Fuzz the decoder" build/asan/bin/decode_fuzz 60
    fi
  fi
  if stage "Build (tsan)" build tsan; then
    checked "Unit tests, thread sanitizer" run_sanitized tsan '^unit-tsan$'
  fi
  checked "clang-tidy" tests/tidy.sh
  checked "Build (rpc_floor, for the tests of links)" cmake --build --preset dev --target rpc_floor
  checked "Long tests" run_tests dev '^full$'
  if [[ ${install} == no ]] || stage "Packages for the image" deploy/install-deps.sh image; then
    checked "Bundle and image" build/venv/bin/python -m pytest tests/package
  fi
fi

if [[ ${failed} -ne 0 ]]; then
  summary+=("${failed} of the above FAILED")
  exit 1
fi
summary+=("All passed")
