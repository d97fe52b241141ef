# Two images from one recipe. `service` is Sandcell itself, ready to run offline; `kernel` is the root file system that
# code runs in, the same as `sandcell environments build python` makes. They share no layer above Debian: what the
# service imports and what kernels import are two separate sets of packages. How to build and run: docs/how-to/containers.md.

ARG BASE=debian:bookworm-slim

# --- tools: a Python environment with pip; becomes the service's, and installs into the kernel's root from outside
FROM ${BASE} AS tools
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv ca-certificates \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/sandcell
WORKDIR /recipe
COPY environments/python/environment.toml ./
RUN python3 -c 'import tomllib; print(*tomllib.load(open("environment.toml", "rb"))["packages"])' > packages \
    && python3 -c 'import tomllib; print(tomllib.load(open("environment.toml", "rb"))["python_version"])' > version

# --- kernel: Debian with the recipe's packages; pip and the finishing script work on it as a plain directory, since the
# files an engine mounts over /etc while it builds could not be replaced otherwise
FROM ${BASE} AS kernel-debian
COPY --from=tools /recipe/packages /tmp/packages
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(cat /tmp/packages) \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/* /tmp/packages

FROM tools AS kernel-root
COPY environments/python/ ./
ARG PIP_CONFIG_FILE
ARG PIP_INDEX_URL
COPY --from=kernel-debian / /root-of-kernel
RUN /opt/sandcell/bin/pip install --quiet --no-cache-dir --no-compile --no-deps --only-binary=:all: --require-hashes \
        --target="/root-of-kernel/usr/local/lib/python$(cat version)/dist-packages" --requirement=requirements.txt \
    && chroot /root-of-kernel /bin/sh < finish.sh \
    && rm -rf /root-of-kernel/dev/* /root-of-kernel/run/.containerenv /root-of-kernel/.dockerenv

FROM scratch AS kernel
COPY --from=kernel-root /root-of-kernel /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
USER 1000:1000
WORKDIR /workspace
CMD ["/usr/bin/python3"]

# --- service
FROM tools AS service-python
WORKDIR /source
ARG PIP_CONFIG_FILE
ARG PIP_INDEX_URL
# Only files that the lock names by their hashes; the tools that build our own packages are among them, and go again.
COPY requirements.lock ./
RUN /opt/sandcell/bin/pip install --quiet --no-cache-dir --only-binary=:all: --require-hashes --requirement=requirements.lock
COPY . .
RUN /opt/sandcell/bin/pip install --quiet --no-cache-dir --no-deps --no-build-isolation ./client . \
    && /opt/sandcell/bin/pip uninstall --quiet --yes hatchling editables pathspec pluggy tomlkit trove-classifiers pip

FROM ${BASE} AS service
# runc, mount and e2fsprogs make sandboxes; tini reaps what they leave; mmdebstrap builds further environments.
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        python3 ca-certificates runc mount e2fsprogs util-linux tini mmdebstrap debian-archive-keyring \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/*
ENV SANDCELL_HOST=0.0.0.0 \
    SANDCELL_PORT=8899 \
    SANDCELL_DATA_DIR=/var/lib/sandcell \
    SANDCELL_ENVIRONMENTS_DIR=/usr/lib/sandcell/environments \
    PATH=/opt/sandcell/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
COPY --from=kernel / /usr/lib/sandcell/environments/python/image/root
COPY --from=service-python /opt/sandcell /opt/sandcell
RUN python3 -m kernels.oci.container adopt python /usr/lib/sandcell/environments/python/image/root
VOLUME /var/lib/sandcell
EXPOSE 8899
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python3", "-c", \
    "import os, ssl, urllib.request as u; tls = 'SANDCELL_TLS_CERT' in os.environ; \
    u.urlopen(('https' if tls else 'http') + '://127.0.0.1:' + os.environ['SANDCELL_PORT'] + '/healthz', timeout=4, \
    context=ssl._create_unverified_context() if tls else None)"]
ENTRYPOINT ["/usr/bin/tini", "--", "python3", "-m", "kernels.oci.container", "start"]
CMD ["serve"]
