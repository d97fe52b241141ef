"""Netlink sockets of user code: the guest makes them, so that there are never more than a few.

What lies unread in one is memory of the host that no control group is charged for, and `getaddrinfo` and `getifaddrs`
need them. So a filter on all that the guest starts hands `socket(AF_NETLINK, ...)` to a thread of the guest. It makes
the socket, bound, since only bound ones are in the kernel's list, and puts it in the caller's place. A `bind` that
follows is answered for the kernel, which would refuse a second one. gVisor's sockets are its own memory: no filter.
"""

from __future__ import annotations

import _socket as socket
import _thread
import ctypes
import errno
import fcntl
import os
import struct

_MACHINES = {  # the architecture as filters name it, and the numbers of seccomp, socket and bind
    "x86_64": (0xC000003E, 317, 41, 49),
    "aarch64": (0xC00000B7, 277, 198, 200),
}
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # of BPF
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
# Where `struct seccomp_data` has them; of arguments, the low half.
_NUMBER, _ARCHITECTURE, _FIRST, _THIRD = 0, 4, 16, 32
_ADDRESS_BYTES = 12  # of `struct sockaddr_nl`

_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_RECEIVE, _SEND, _ADD = 0xC0502100, 0xC0182101, 0x40182103  # SECCOMP_IOCTL_NOTIF_*
_AND_ANSWER, _CONTINUE = 2, 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_ADDITION = struct.Struct("=QIIII")
_SAFE_TYPES = (socket.SOCK_RAW, socket.SOCK_DGRAM)


def restrain(user: int, most: int) -> None:
    """Let all that this thread starts from now on have at most so many netlink sockets at once, made by another thread.

    Call it in the main thread, before anything is started.
    """
    architecture, seccomp, open_number, bind_number = _MACHINES[os.uname().machine]
    ready = _thread.allocate_lock()
    ready.acquire()
    maker = _Maker(user, most, open_number)
    _thread.start_new_thread(maker.serve, (ready,))  # has no filter: what it opens is not handed to it
    program = b"".join(struct.pack("=HBBI", *one) for one in _filter(architecture, open_number, bind_number))
    code = ctypes.create_string_buffer(program)
    head = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    maker.listener = libc.syscall(ctypes.c_long(seccomp), _SET_MODE_FILTER, _NEW_LISTENER, head)
    failure = ctypes.get_errno()
    ready.release()
    if maker.listener < 0:
        raise OSError(failure, f"netlink sockets cannot be counted: {os.strerror(failure)}")


def _filter(architecture: int, open_number: int, bind_number: int) -> list[tuple[int, int, int, int]]:
    """Hand on `socket` for netlink, and `bind` of an address that is as long as netlink's; allow the rest (pure)."""
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 0, 7, architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_EQUAL, 0, 2, open_number),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 4, 3, socket.AF_NETLINK),
        (_EQUAL, 0, 2, bind_number),
        (_LOAD, 0, 0, _THIRD),
        (_EQUAL, 1, 0, _ADDRESS_BYTES),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOTIFY),
    ]


class _Maker:
    """The thread that makes them. With it ends the listener, and then the kernel says ENOSYS to who asks."""

    def __init__(self, user: int, most: int, open_number: int) -> None:
        self.listener = -1
        self._user = user
        self._most = most
        self._open_number = open_number
        self._made: set[int] = set()

    def serve(self, ready: _thread.LockType) -> None:
        ready.acquire()
        if self.listener < 0:
            return
        try:
            self._become_user()
            while True:
                self._take()
        finally:
            os.close(self.listener)

    def _become_user(self) -> None:
        """This thread alone: only the user may look at the user's descriptors."""
        libc = ctypes.CDLL(None)
        libc.setfsgid(self._user)
        libc.setfsuid(self._user)

    def _take(self) -> None:
        """Answer one call; who asked may be gone by any step (ENOENT), or this thread be woken by a signal."""
        buffer = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, buffer)
            number, process, _, call, _, _, *arguments = _NOTIFICATION.unpack(buffer)
            if call == self._open_number:
                self._open(number, arguments[1])
            elif self._is_made(process, arguments[0]):
                self._answer(number)
            else:
                self._answer(number, flags=_CONTINUE)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINTR):
                raise

    def _open(self, number: int, kind: int) -> None:
        if kind & 0xF not in _SAFE_TYPES:
            return self._answer(number, error=errno.ESOCKTNOSUPPORT)
        try:
            made = self._make(kind & (0xF | socket.SOCK_NONBLOCK))
        except OSError as error:  # the guest itself may be out of descriptors or memory: others are served later
            return self._answer(number, error=error.errno or errno.ENOBUFS)
        flags = os.O_CLOEXEC if kind & socket.SOCK_CLOEXEC else 0
        try:
            fcntl.ioctl(self.listener, _ADD, _ADDITION.pack(number, _AND_ANSWER, made.fileno(), 0, flags))
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            self._answer(number, error=errno.EMFILE)
        finally:
            made.close()

    def _make(self, kind: int) -> socket.socket:
        """One more, bound; EMFILE when there are as many as there may be."""
        live = _bound()
        self._made &= live
        if len(live) >= self._most:
            raise OSError(errno.EMFILE, "as many netlink sockets as there may be")
        made = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        try:
            made.bind((0, 0))
        except OSError:
            made.close()
            raise
        self._made.add(os.fstat(made.fileno()).st_ino)
        return made

    def _is_made(self, process: int, descriptor: int) -> bool:
        """Whether the guest made this socket. One that is put in its place meanwhile is not bound: nothing is lost."""
        try:
            return int(os.readlink(f"/proc/{process}/fd/{descriptor & 0xFFFFFFFF}")[8:-1]) in self._made
        except (OSError, ValueError):
            return False

    def _answer(self, number: int, *, error: int = 0, flags: int = 0) -> None:
        fcntl.ioctl(self.listener, _SEND, _RESPONSE.pack(number, 0, -error, flags))


def _bound() -> set[int]:
    """Inodes of the bound netlink sockets of the sandbox; the kernel's own have no port."""
    with open("/proc/net/netlink", "rb") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return {int(row[9]) for row in rows if row[2] != b"0"}
