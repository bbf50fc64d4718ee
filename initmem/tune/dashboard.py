"""Ray's own dashboard, where a run starts Ray itself."""

from __future__ import annotations

from typing import Any

from ray._private.utils import get_dashboard_dependency_error

from initmem.study.spec import UserError


def beside(wanted: bool, address: str) -> dict[str, Any]:
    """For `ray.init`: the dashboard on the loopback, or none.

    Raises UserError for a Ray that runs already, and where the dashboard is not installed.
    """
    if not wanted:
        return {"include_dashboard": False} if address == "local" else {}
    if address != "local":
        text = "is for a Ray that this command starts; that of a cluster has its own, at its head"
        raise UserError(f"--dashboard: {text}")
    if get_dashboard_dependency_error() is not None:
        raise UserError("--dashboard: is not installed: pip install 'ray[default]'")
    return {"include_dashboard": True, "dashboard_host": "127.0.0.1"}


def said(url: str) -> str:
    """Where it is, in a line."""
    return f"Ray's dashboard: http://{url} (if it wants a token: ray get-auth-token)"
