"""What only administrators do: principals with their quotas, and sessions of anybody."""
