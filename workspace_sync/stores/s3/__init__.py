"""Objects in an S3 bucket. Only this folder knows S3."""
