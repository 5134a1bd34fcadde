"""No public names: what graphs keep is for the other extensions."""

from typing import final

class Ordered: ...

@final
class Operands: ...
