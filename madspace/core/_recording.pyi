"""No public names: what captures of our own take note of is for the other extensions."""

from typing import final

@final
class Recording: ...
