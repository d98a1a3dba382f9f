"""The shuffled model: users send anonymous one-bit messages, and only their shuffled union is seen."""
