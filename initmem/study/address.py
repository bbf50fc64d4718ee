"""Where a run lies: a folder, or s3://bucket/path[?region=...&scheme=...&endpoint_override=...].

What is not of this form is refused before anything else reads it, for it may hold a password: a
key before the bucket, an option of another name, or either of them behind percent signs.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

OPTIONS = {
    "region": r"[\w-]+",
    "scheme": r"https?",
    "endpoint_override": r"(https?://)?[\w.-]+(:\d+)?",
}

_WITH_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_BUCKET = re.compile(r"s3://[A-Za-z0-9][A-Za-z0-9._-]*(/|$)")


def is_path(address: str) -> bool:
    """Whether the address is a path of this machine."""
    return _WITH_SCHEME.match(address) is None


def below(address: str, name: str) -> str:
    """The address of a file or folder below an address."""
    place, query, options = (address, "", "") if is_path(address) else address.partition("?")
    return f"{place.rstrip('/')}/{name}{query}{options}"


def refusal(address: str) -> str | None:
    """What is wrong with an address, in words that repeat nothing of it; None if nothing is."""
    if is_path(address):
        return "a path cannot hold a NUL character" if "\0" in address else None
    place, _, options = address.partition("?")
    if not address.startswith("s3://"):
        return "no address of a bucket, write s3://bucket/path or the path of a folder"
    given = parse_qsl(options, keep_blank_values=True)
    known = all(re.fullmatch(OPTIONS.get(name, "(?!)"), value) for name, value in given)
    if _BUCKET.match(place) and known:
        return None
    form = "s3://bucket/path?" + "&".join(f"{name}=..." for name in OPTIONS)
    return (
        f"carries credentials or what is no part of {form}; credentials come from the environment "
        f"(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or an instance profile)"
    )
