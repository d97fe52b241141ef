"""The guest: PID 1 of a sandbox. Starts kernels and commands, handles files, reaps, reports. See README.md here.

It runs inside the sandbox as `python3 -I -B /opt/sandcell/guest --generation N`, on the image's Python with tornado and
no other package. Importing this package costs nothing.
"""
