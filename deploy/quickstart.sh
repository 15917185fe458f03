#!/usr/bin/env bash
# From a fresh checkout to a first result: installs what is missing, builds, starts a server on the
# GPU if there is one and else on the CPU, has it find the nearest dictionary words to a few
# misspelt ones, and stops it.
#
#   deploy/quickstart.sh [--preset NAME] [--no-install] [WORD ...]
#
#   --preset NAME  the CMake preset to build; default release
#   --no-install   expect everything to be installed
#   WORD           words to look up instead of those built in
#
# Nothing is left behind but build/NAME.

set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^$/ s/^#\( \|$\)//p' "$0"; }
step() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'quickstart.sh: %s\n' "$*" >&2
  exit 1
}

preset=release
install=yes
words=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --preset) preset=${2:?"--preset needs a name"} && shift ;;
    --no-install) install=no ;;
    -h | --help) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    *) words+=("$1") ;;
  esac
  shift
done
build=build/${preset}

if [[ ${install} == yes ]]; then
  step "Packages"
  deploy/install-deps.sh
fi

# A python3 that is not the system's may lack the packages installed above.
python=
for candidate in python3 /usr/bin/python3; do
  if "${candidate}" -c 'import numpy' 2>/dev/null; then
    python=${candidate}
    break
  fi
done
[[ -n ${python} ]] || fail "no python3 with numpy (package python3-numpy)"

# A GPU needs its compiler too; without one the build has only the CPU device.
if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
  PATH=/usr/local/cuda/bin:${PATH}
fi
device=cpu
if gpus=$(nvidia-smi -L 2>/dev/null) && [[ -n ${gpus} ]]; then
  if command -v nvcc >/dev/null; then
    device=auto
    echo "Found ${gpus%% (UUID*}"
  else
    echo "Found ${gpus%% (UUID*}, but no nvcc: running on the CPU."
    echo "To use the GPU, install the CUDA Toolkit (13.0), delete ${build} and run this again."
  fi
else
  echo "No NVIDIA GPU here: running on the CPU."
fi

step "Build (preset ${preset})"
# The first configuration leaves the tests out; a build that is there already keeps its settings.
configure=(cmake --preset "${preset}")
if [[ ! -f ${build}/CMakeCache.txt ]]; then
  configure+=(-DGEMMD_TESTS=OFF)
fi
"${configure[@]}" >/dev/null
cmake --build "${build}" --target gemmd gemmctl

scratch=$(mktemp -d)
server=
cleanup() {
  if [[ -n ${server} ]]; then
    kill -TERM "${server}" 2>/dev/null || true
    wait "${server}" || true
  fi
  rm -rf "${scratch}"
}
trap cleanup EXIT

step "Server"
log=${scratch}/gemmd.log
"${build}/bin/gemmd" --device="${device}" --listen=127.0.0.1:0 --metrics-listen=127.0.0.1:0 \
  --log-format=json >"${log}" 2>&1 &
server=$!

# The record that the server writes once it listens names its addresses.
address_of() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "${log}" | head -n 1; }
for ((tenths = 0; tenths < 600; ++tenths)); do
  address=$(address_of grpc_address)
  if [[ -n ${address} ]] && "${build}/bin/gemmctl" --address "${address}" health >/dev/null 2>&1; then
    break
  fi
  address=
  if ! kill -0 "${server}" 2>/dev/null; then
    cat "${log}" >&2
    fail "the server did not start; its log is above"
  fi
  sleep 0.1
done
if [[ -z ${address} ]]; then
  cat "${log}" >&2
  fail "the server was not ready within a minute; its log is above"
fi
metrics=$(address_of metrics_address)
echo "gemmd is ready at ${address}, its metrics at http://${metrics}/metrics"
"${build}/bin/gemmctl" --address "${address}" info

step "Nearest words"
"${python}" deploy/quickstart/nearest_words.py --gemmctl "${build}/bin/gemmctl" \
  --address "${address}" --scratch "${scratch}" "${words[@]}"

step "What the server counted"
curl -fsS --noproxy '*' "http://${metrics}/metrics" |
  grep -E '^(grpc_server_handled|gemmd_kernel_launches|gemmd_flops|gemmd_bytes)_total.* [1-9]'

step "Stop"
kill -TERM "${server}"
status=0
wait "${server}" || status=$?
server=
if [[ ${status} -ne 0 ]]; then
  cat "${log}" >&2
  fail "the server ended with status ${status}; its log is above"
fi
echo "The server finished its work and exited with status 0."
echo
echo "To go on: ${build}/bin/gemmd starts a server; ${build}/bin/gemmctl --help says how to call it."
