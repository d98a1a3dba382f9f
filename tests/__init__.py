"""A package, so that no installed one of this name takes its place."""
