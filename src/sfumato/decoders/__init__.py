"""Decoders turn a release and a query into an answer with an error bar."""
