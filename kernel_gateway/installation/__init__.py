"""Lists of packages, installed in a sandbox of the image that they are added to: by the command, and by the service."""
