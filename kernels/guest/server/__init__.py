"""What the host asks of the guest, over HTTP."""
