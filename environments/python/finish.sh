#!/bin/sh
# Runs inside the new root, as its root, without a network: the last touches that make it an image for sandboxes.
# Used by `sandcell environments build` and by the Dockerfile's kernel target alike.
set -eu

# Users may install packages into their own home; the system's are read-only anyway.
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED

# The user that code runs as, and the places that every sandbox mounts something on.
grep -q '^user:' /etc/passwd || echo 'user:x:1000:1000:user:/home/user:/bin/bash' >> /etc/passwd
grep -q '^user:' /etc/group || echo 'user:x:1000:' >> /etc/group
mkdir -p /workspace /home/user /run/sandcell /opt/sandcell/guest /dev/shm /proc /sys/devices/system/cpu /tmp
for name in hostname hosts resolv.conf; do rm -f "/etc/$name"; done
echo sandbox > /etc/hostname
printf '127.0.0.1 localhost sandbox\n::1 localhost\n' > /etc/hosts
: > /etc/resolv.conf

packages=$(python3 -c 'import sysconfig; print(sysconfig.get_paths("posix_local")["purelib"])')

# pip put commands beside the packages and wrote the Python that it ran with into scripts: they are for this one, on PATH.
for command in "$packages"/bin/*; do
    [ -f "$command" ] || continue
    [ "$(head -c 2 "$command" | tr -d '\0')" = '#!' ] && sed -i '1s|^#!.*python[0-9.]*$|#!/usr/bin/python3|' "$command"
    chmod 755 "$command"
    mv "$command" /usr/local/bin/
done
rm -rf "$packages/bin"

# The AWS command line reads its descriptions of services compressed as well; the examples are for help pages, which
# need a pager that is not here.
if [ -d "$packages/awscli" ]; then
    rm -rf "$packages/awscli/examples"
    find "$packages/awscli/botocore/data" -name '*.json' -exec gzip -9n {} +
fi

# A read-only root cannot cache bytecode later.
python3 -m compileall -q -j 0 "$packages" || true

# Matplotlib's font list takes seconds to make: made once here, every new home starts with it.
export HOME=/etc/skel
mkdir -p "$HOME"
if python3 -c 'import matplotlib' 2>/dev/null; then
    python3 -c 'import matplotlib.font_manager'
fi
