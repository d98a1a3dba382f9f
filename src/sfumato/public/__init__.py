"""What all parties must agree on, bit for bit: documents, seeded streams and rows, portable arithmetic, domains."""
