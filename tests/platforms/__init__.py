"""Proof for systems that are not at hand, one script for each question.

`python -m tests.platforms.NAME` from the root of the repository; each ends with a sentence that
says what holds, or why it was skipped. docs/dev/platforms.md has the results.
"""
