"""The sandbox's loopback: ports of the guest, the inner half of the way out, netlink."""
