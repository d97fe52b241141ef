"""What this host can enforce: findings of `sandcell doctor`, tried out where reading is not enough."""
