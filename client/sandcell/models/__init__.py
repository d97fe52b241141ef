"""The values that services return and faces send: msgspec structs, one module a subject. Pure."""
