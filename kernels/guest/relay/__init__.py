"""The kernels' one client: it keeps what they say until the gateway has it durably, and outlives the gateway."""
