"""Use cases: authorise, call, answer. Knows no protocol; takes and returns what `model/` names."""
