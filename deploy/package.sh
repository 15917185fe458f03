#!/usr/bin/env bash
# Makes the bundle: gemmd, gemmctl and all that they need but glibc, as one tar.gz that runs from any
# folder of another Linux x86-64 and installs nothing.
#
#   deploy/package.sh [--build-dir DIR] [--cuda AUTO|ON|OFF] [--no-wheel] [-o FILE]
#
#   --build-dir DIR  take the programs that are built there; default: build/release, built first
#   --cuda VALUE     build with the GPU's kernels or without (GEMMD_CUDA); default: as build/release
#                    was configured, at first AUTO, which takes them if there is a CUDA compiler
#   --no-wheel       leave the Python client out; without it PyPI has to be reachable
#   -o FILE          default: build/gemmd-VERSION-linux-x86_64.tar.gz
#
# Needs what `deploy/install-deps.sh package` installs. The same programs and the same commit give
# the same file, byte for byte. SOURCE_DATE_EPOCH is the date of what is in it; default: the commit's.

set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

# The GPUs that start at once; those that are newer compile what compute_80 has when they first run.
architectures='80;86-real;89-real;90a-real'
# What is compiled into the programs and has no file in lib/ that would tell of it.
header_packages=(libcli11-dev libcpp-httplib-dev nlohmann-json3-dev)

usage() { sed -n '2,/^$/ s/^#\( \|$\)//p' "$0"; }
fail() {
  printf 'package.sh: %s\n' "$*" >&2
  exit 1
}

build=
cuda=
wheel=yes
output=
while [[ $# -gt 0 ]]; do
  case "$1" in
    --build-dir) build=$(cd "${2:?"--build-dir needs a folder"}" && pwd) && shift ;;
    --cuda) cuda=${2:?"--cuda needs AUTO, ON or OFF"} && shift ;;
    --no-wheel) wheel=no ;;
    -o) output=$(realpath -m "${2:?"-o needs a file"}") && shift ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift
done
cd "${top}"
[[ -z ${build} || -z ${cuda} ]] || fail "--cuda is for building; --build-dir takes what is built"
[[ $(uname -sm) == "Linux x86_64" ]] || fail "made for Linux x86_64 only"
for tool in dpkg-query objdump patchelf strip; do
  command -v "${tool}" >/dev/null || fail "no ${tool}; run deploy/install-deps.sh package"
done

if [[ -z ${build} ]]; then
  build=${top}/build/release
  if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
    PATH=/usr/local/cuda/bin:${PATH}
  fi
  # The first configuration leaves the tests out; a build that is there already keeps its settings.
  configure=(cmake --preset release "-DGEMMD_CUDA_ARCHITECTURES=${architectures}")
  [[ -f ${build}/CMakeCache.txt ]] || configure+=(-DGEMMD_TESTS=OFF)
  [[ -z ${cuda} ]] || configure+=("-DGEMMD_CUDA=${cuda}")
  "${configure[@]}"
  cmake --build "${build}" --target gemmd gemmctl
fi

# ---- What is there

cached() { sed -n "s/^$1:[A-Z]*=//p" "${build}/CMakeCache.txt"; }
programs=("${build}/bin/gemmd" "${build}/bin/gemmctl")
for program in "${programs[@]}"; do
  [[ -x ${program} ]] || fail "no ${program}; build it first"
done
version=$(cached CMAKE_PROJECT_VERSION)
with_cuda=no
if [[ $(cached GEMMD_CUDA) != OFF && $(cached CMAKE_CUDA_COMPILER) == /* ]]; then
  with_cuda=yes
fi
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH

name=gemmd-${version}-linux-x86_64
output=${output:-${top}/build/${name}.tar.gz}
scratch=$(mktemp -d)
partial=${output}.$$
trap 'rm -rf "${scratch}" "${partial}"' EXIT
bundle=${scratch}/${name}
mkdir -p "${bundle}"/{bin,lib,licenses,proto} "$(dirname "${output}")"

# ---- Programs and their libraries

declare -A file_of=()  # the name by which a library is asked for -> its file
while read -r soname file; do
  [[ ${file} == /* ]] || fail "${soname}: ${file}"
  file_of[${soname}]=$(realpath "${file}")
done < <(ldd "${programs[@]}" | awk '$2 == "=>" { print $1, $3 == "not" ? "not found" : $3 }' | sort -u)

# /lib may be a link to /usr/lib, and packages name their files by either.
either_name() { printf '%s\n' "$1" "${1#/usr}" "/usr${1#/usr}"; }
declare -A owner_of=()  # a library's file, without its folder -> the package that brought it
while IFS=' ' read -r package file; do
  owner_of[${file##*/}]=${package}
done < <(for file in "${file_of[@]}"; do either_name "${file}"; done | sort -u |
  xargs dpkg-query -S 2>/dev/null | sed -nE 's/^([^ ,:]+)[^ ]*: (.*)$/\1 \2/p')

packages=("${header_packages[@]}")
for soname in "${!file_of[@]}"; do
  file=${file_of[${soname}]}
  package=${owner_of[${file##*/}]:-}
  [[ -n ${package} ]] || fail "no package owns ${file}, so its licence is not known"
  [[ ${package} != libc6 ]] || continue
  packages+=("${package}")
  install -m 644 "${file}" "${bundle}/lib/${soname}"
  patchelf --set-rpath "\$ORIGIN" "${bundle}/lib/${soname}"
done
for program in "${programs[@]}"; do
  copy=${bundle}/bin/${program##*/}
  strip -o "${copy}" "${program}"
  patchelf --set-rpath "\$ORIGIN/../lib" "${copy}"
done
glibc=$(objdump -T "${bundle}"/bin/* "${bundle}"/lib/* | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)
glibc=${glibc#GLIBC_}

# ---- The contract and the Python client

(cd proto && find . -name '*.proto' -exec cp --parents -t "${bundle}/proto" {} +)
if [[ ${wheel} == yes ]]; then
  python3 -m venv "${scratch}/venv" || fail "no venv; run deploy/install-deps.sh package"
  "${scratch}/venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps \
    --wheel-dir "${bundle}/python" client/python
fi

# ---- Licences

cp LICENSE "${bundle}/LICENSE"
mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
for package in "${packages[@]}"; do
  copyright=/usr/share/doc/${package}/copyright
  [[ -f ${copyright} ]] || fail "no ${copyright}: the licence of what is carried has to go along"
  cp -L "${copyright}" "${bundle}/licenses/${package}"
done
# Those texts refer to the common ones.
grep -hoE '/usr/share/common-licenses/[A-Za-z0-9.+-]+' "${bundle}"/licenses/* | sed 's/\.$//' | sort -u |
  while read -r text; do
    [[ ! -f ${text} ]] || cp -L "${text}" "${bundle}/licenses/common-${text##*/}"
  done
if [[ ${with_cuda} == yes ]]; then
  cat >"${bundle}/licenses/cuda-runtime" <<'END'
bin/gemmd contains the NVIDIA CUDA runtime (libcudart_static), which NVIDIA lets be distributed as
part of an application by Attachment A of the CUDA Toolkit End User License Agreement:
https://docs.nvidia.com/cuda/eula/index.html
END
fi

# ---- What it says of itself

if [[ ${with_cuda} == yes ]]; then
  devices="It computes on NVIDIA GPUs of compute capability 8.0 or higher with driver 580 or newer, and on the
CPU where there is no NVIDIA device or with \`--device=cpu\`."
else
  devices="It was built without CUDA and computes on the CPU alone."
fi
cat >"${bundle}/README.md" <<END
# gemmd ${version} for Linux x86-64

A server that multiplies matrices, taking calls over gRPC, and its command line client. Runs from
this folder, wherever it is put, and needs glibc ${glibc} or newer and nothing else. ${devices}

\`\`\`sh
bin/gemmd                              # listens on 127.0.0.1:50051; bin/gemmd --help has the options
bin/gemmctl health                     # from another shell
bin/gemmctl multiply A.npy B.npy -o D.npy
\`\`\`

| path | what |
| --- | --- |
| \`bin/\` | \`gemmd\`, the server, and \`gemmctl\`, the client |
| \`lib/\` | the libraries that they use, found by where they lie beside \`bin/\` |
| \`proto/\` | the contract, \`gemm/v1/gemm.proto\`, for stubs of your own in any language |
END
if [[ ${wheel} == yes ]]; then
  cat >>"${bundle}/README.md" <<END
| \`python/\` | the Python client: \`pip install python/*.whl\` in a virtual environment, then \`import gemmd\` |
END
fi
cat >>"${bundle}/README.md" <<END
| \`LICENSE\` | of gemmd: Apache 2.0 |
| \`licenses/\` | of what is carried along, by the name of its package |
END

# ---- The file

tar --create --directory "${scratch}" --format=gnu --sort=name --mtime="@${SOURCE_DATE_EPOCH}" \
  --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX "${name}" | gzip -n -9 >"${partial}"
mv "${partial}" "${output}"

megabytes() { du --bytes --summarize "$1" | awk '{ printf "%.1f MB", $1 / 1e6 }'; }
echo "${output}: $(megabytes "${output}"), unpacked $(megabytes "${bundle}")"
echo "CUDA: ${with_cuda}; ${#packages[@]} packages' licences; needs glibc ${glibc} or newer"
