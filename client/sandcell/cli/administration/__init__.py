"""Commands for administrators: principals, credentials, the audit log, environments and agents."""
