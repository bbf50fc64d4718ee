"""Rows of a run -> tables -> figures -> report."""
