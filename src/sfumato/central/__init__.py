"""The central model: a curator holds the points, sums their features exactly, and releases the sum with noise."""
