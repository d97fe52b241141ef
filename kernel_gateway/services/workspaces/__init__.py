"""Files of a live session and of durable workspaces: read, written, copied, linked, removed, expired."""
