"""What the figures of docs/figures.md come from; each benchmark prints ratios or differences measured in one run."""
