"""Privacy: guarantees as values, exact integer noise from secure bits, and the ledger of what was spent."""
