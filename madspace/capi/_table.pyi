from typing import Any

capsule: Any
api_version: tuple[int, int]
