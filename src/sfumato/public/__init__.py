"""What all parties must agree on, bit for bit: documents and domains, seeded streams and rows, arithmetic, limits."""
