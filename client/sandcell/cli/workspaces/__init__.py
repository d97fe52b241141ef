"""Commands on what outlives sessions: workspaces, their files, datasets, usage."""
