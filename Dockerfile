# The gemmd server, built from this checkout:
#
#   docker build -t gemmd .
#
# deploy/README.md says how to run it. Both images must be Debian 12, Ubuntu 24.04 or newer, and the
# runtime's glibc no older than the build's. The CUDA runtime is linked statically and the driver
# comes from the host, so that a plain image without CUDA serves as the runtime.
#
#   --build-arg BUILD_IMAGE=...    with the CUDA Toolkit 13.0, if GEMMD_CUDA=ON
#   --build-arg RUNTIME_IMAGE=...  needs to have glibc, and nothing else
#   --build-arg GEMMD_CUDA=OFF     for machines without GPUs; run it with -e GEMMD_DEVICE=cpu

ARG BUILD_IMAGE=nvidia/cuda:13.0.2-devel-ubuntu24.04
ARG RUNTIME_IMAGE=ubuntu:24.04

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY deploy/install-deps.sh deploy/
RUN deploy/install-deps.sh package
COPY . .
ARG GEMMD_CUDA=ON
RUN --mount=type=cache,target=/root/.cache/ccache \
    deploy/package.sh --no-wheel --cuda "${GEMMD_CUDA}" -o /gemmd.tar.gz && \
    mkdir /opt/gemmd && \
    tar --extract --file=/gemmd.tar.gz --directory=/opt/gemmd --strip-components=1

FROM ${RUNTIME_IMAGE}
LABEL org.opencontainers.image.title="gemmd" \
      org.opencontainers.image.description="Matrix multiplication as a service on NVIDIA GPUs" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/gemmd /opt/gemmd
ENV PATH=/opt/gemmd/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# What the NVIDIA container runtime brings in.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

# Loopback inside a container cannot be reached, so it listens everywhere; who gets there is up to
# what is published (-p). Without a GPU that works it exits and says why: a forgotten --gpus must not
# become a server on the CPU. `docker stop` kills after 10 s, which is why draining takes less.
ENV GEMMD_LISTEN=0.0.0.0:50051 \
    GEMMD_METRICS_LISTEN=0.0.0.0:9464 \
    GEMMD_INSECURE=true \
    GEMMD_DEVICE=cuda \
    GEMMD_DRAIN_TIMEOUT=8s
EXPOSE 50051 9464

USER 65532:65532
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/opt/gemmd/bin/gemmctl", "--timeout", "4s", "health"]
ENTRYPOINT ["/opt/gemmd/bin/gemmd"]
