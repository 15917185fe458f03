#!/usr/bin/env bash
# Installs the Debian and Ubuntu packages that gemmd needs, and only those that are missing.
#
#   deploy/install-deps.sh          to build and to run deploy/quickstart.sh
#   deploy/install-deps.sh package  and deploy/package.sh
#   deploy/install-deps.sh test     and tests/run.sh
#   deploy/install-deps.sh lint     and the checks of .ci/run
#   deploy/install-deps.sh image    and tests/package
#
# Written for Debian 12 and Ubuntu 24.04. Needs root, or sudo, if anything is missing.

set -euo pipefail

packages=(
  # Tools
  ca-certificates ccache cmake g++ git ninja-build pkg-config
  # Libraries
  libabsl-dev libcli11-dev libcpp-httplib-dev libgrpc++-dev libopenblas-dev libprotobuf-dev libspdlog-dev
  nlohmann-json3-dev prometheus-cpp-dev protobuf-compiler protobuf-compiler-grpc
  # The quickstart's data and its check
  curl python3 python3-numpy wamerican
)
package_packages=(binutils patchelf python3-venv)
test_packages=(libgmock-dev libgtest-dev prometheus python3-venv)
lint_packages=(clang-format clang-tidy shellcheck)
image_packages=(buildah debootstrap iproute2)

case "${1:-}" in
  "") ;;
  package) packages+=("${package_packages[@]}") ;;
  test) packages+=("${test_packages[@]}") ;;
  lint) packages+=("${test_packages[@]}" "${lint_packages[@]}") ;;
  image) packages+=("${package_packages[@]}" "${image_packages[@]}") ;;
  *)
    echo "usage: deploy/install-deps.sh [package|test|lint|image]" >&2
    exit 2
    ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install-deps.sh: this system has no apt-get; install what corresponds to:" >&2
  printf '  %s\n' "${packages[@]}" >&2
  exit 1
fi

# dpkg-query fails when it knows nothing of a package, and prints the state of the others.
installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null |
  awk '$2 == "installed" { print $1 }') || true
mapfile -t missing < <(printf '%s\n' "${packages[@]}" | grep -vxF -e "${installed}" || true)
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

as_root=()
if [[ ${EUID} -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "install-deps.sh: run it as root (there is no sudo); it would install: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "Installing ${#missing[@]} packages: ${missing[*]}"
"${as_root[@]}" apt-get -qq update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null
