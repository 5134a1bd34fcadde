"""Switches in the environment."""

import os
import warnings

from madspace.errors import MadspaceWarning

__all__ = ["is_on"]

_VALUES = {"": False, "0": False, "false": False, "off": False, "no": False} | dict.fromkeys(
    ("1", "true", "on", "yes"), True
)


def is_on(name: str) -> bool:
    """Tell whether a switch is on; what is no boolean warns and counts as off."""
    text = os.environ.get(name, "")
    value = _VALUES.get(text.strip().lower())
    if value is None:
        warnings.warn(f"{name}: expected 1 or 0, got {text!r}; it is ignored", MadspaceWarning, stacklevel=2)
    return bool(value)
