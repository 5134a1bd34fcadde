"""Classes whose objects come from elsewhere, and would be without content if they were made by the class."""

from typing import Any, NoReturn


def refusal(advice: str) -> Any:
    """Return a ``__new__`` that raises TypeError(advice).

    It goes into a compiled class by `attach`, which leaves the slot that compiled code uses as it is.
    """

    def __new__(kind: type, *args: object, **kwargs: object) -> NoReturn:  # noqa: N807
        raise TypeError(advice)

    return staticmethod(__new__)
