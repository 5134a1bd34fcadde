from typing import final

@final
class Foreign: ...
