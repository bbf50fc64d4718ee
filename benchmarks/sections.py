"""Sections of docs/performance.md: each benchmark writes its own and keeps those of the others."""

from __future__ import annotations

import re


def section(text: str, heading: str) -> str:
    """The section `## heading` with its heading, or nothing."""
    found = re.search(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return found[0] if found else ""


def with_section(text: str, heading: str, body: str) -> str:
    """The text with its section `## heading` replaced, or with it at the end."""
    old = section(text, heading)
    if old:
        return text.replace(old, body.rstrip("\n") + "\n" + ("" if text.endswith(old) else "\n"))
    return text.rstrip("\n") + "\n\n" + body.rstrip("\n") + "\n"
