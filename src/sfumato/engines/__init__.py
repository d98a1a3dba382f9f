"""Where the sum runs."""
