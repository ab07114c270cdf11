"""Renders verdicts as documents, figures and tables; concludes nothing itself."""
