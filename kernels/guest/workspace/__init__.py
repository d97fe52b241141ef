"""Files of the workspace, touched with the user's identity."""
