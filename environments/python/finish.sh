#!/bin/sh
# Runs inside the new root, as its root, without a network: the last touches that make it an image for sandboxes.
# Used by `sandcell environments build` and by the Dockerfile's kernel target alike.
set -eu

# Users may install packages into their own home; the system's are read-only anyway.
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED

# The user that code runs as, and the places that every sandbox mounts something on.
grep -q '^user:' /etc/passwd || echo 'user:x:1000:1000:user:/home/user:/bin/bash' >> /etc/passwd
grep -q '^user:' /etc/group || echo 'user:x:1000:' >> /etc/group
mkdir -p /workspace /home/user /run/sandcell /opt/sandcell/guest /dev/shm /proc /sys /tmp
for name in hostname hosts resolv.conf; do rm -f "/etc/$name"; done
echo sandbox > /etc/hostname
printf '127.0.0.1 localhost sandbox\n::1 localhost\n' > /etc/hosts
: > /etc/resolv.conf

# A read-only root cannot cache bytecode later.
packages=$(python3 -c 'import sysconfig; print(sysconfig.get_paths("posix_local")["purelib"])')
python3 -m compileall -q -j 0 "$packages" || true

# Matplotlib's font list takes seconds to make: made once here, every new home starts with it.
export HOME=/etc/skel
mkdir -p "$HOME"
if python3 -c 'import matplotlib' 2>/dev/null; then
    python3 -c 'import matplotlib.font_manager'
fi
