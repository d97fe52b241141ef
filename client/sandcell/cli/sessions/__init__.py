"""Commands that work in a session: run, attach, lease, look into it, its notebook, a replay."""
