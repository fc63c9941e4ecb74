"""Tuning: searches for Plans, in processes of their own."""
