"""What is scarce and how it is shared: places at work, memory, disk, rates, and the calls under way."""
