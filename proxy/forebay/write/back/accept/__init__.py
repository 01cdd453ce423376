"""Acceptance: a request becomes a body and a record in the journal, or is left to be carried out at the origin."""
