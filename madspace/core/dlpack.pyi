"""No public names: its functions are for the other extensions."""

from typing import final

@final
class Facts: ...
