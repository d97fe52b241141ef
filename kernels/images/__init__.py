"""Images that others built: where they come from, what is accepted, what is known of them, and when they go."""
