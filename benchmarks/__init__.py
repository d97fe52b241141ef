"""What the figures of docs/explanation/figures.md come from; each benchmark prints ratios or differences measured in one run."""
