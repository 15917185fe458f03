#!/usr/bin/env bash
# Installs the C++ client, moves it, builds the example project against it and runs that against a
# real server.
#
#   package_test.sh BUILD_DIR GEMMD CXX_COMPILER CXX_FLAGS

set -euo pipefail
build=$1 gemmd=$2 compiler=$3 flags=$4
source=$(cd "$(dirname "$0")/../.." && pwd)
unset grpc_proxy https_proxy http_proxy

folder=$(mktemp -d)
server=
finish() {
  [[ -z ${server} ]] || kill "${server}" || true
  wait
  rm -rf "${folder}"
}
trap finish EXIT

cmake --install "${build}" --component client --prefix "${folder}/installed" >/dev/null
mv "${folder}/installed" "${folder}/moved"
if grep -rnE '#include.*(grpc|google/protobuf|\.pb\.h|internal/)' "${folder}/moved/include"; then
  echo "FAILED: the headers above show what they should hide"
  exit 1
fi

cmake -S "${source}/client/cpp/example" -B "${folder}/build" -DCMAKE_PREFIX_PATH="${folder}/moved" \
  -DCMAKE_CXX_COMPILER="${compiler}" -DCMAKE_CXX_FLAGS="${flags}"
cmake --build "${folder}/build"
example=${folder}/build/multiply_example
"${example}" --help

"${gemmd}" --device=cpu --listen=127.0.0.1:0 --metrics-listen= --log-format=json \
  >"${folder}/log" 2>&1 &
server=$!
address=
for ((i = 0; i < 600 && ${#address} == 0; ++i)); do
  sleep 0.1
  address=$(sed -n 's/.*"grpc_address":"\([^"]*\)".*/\1/p' "${folder}/log")
  kill -0 "${server}" || { cat "${folder}/log" && exit 1; }
done
"${example}" "${address}"
"${folder}/build/large_product" "${address}" 1100

if "${example}" 127.0.0.1:1; then
  echo "FAILED: there is no server at port 1"
  exit 1
fi
