"""What the README's figures come from; each benchmark prints ratios or differences measured in one run."""
