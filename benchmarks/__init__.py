"""What the figures of docs/explanation/figures.md come from: ratios or differences, each measured in one run."""
