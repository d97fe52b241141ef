"""Sessions as they were: kept in the store, and given to others or back to themselves."""
