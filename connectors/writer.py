"""Names this process in records that tell who writes them."""

from __future__ import annotations

import uuid
from typing import Final

PROCESS: Final = uuid.uuid4().hex
"""All connectors of a rounds process share it: what one of them writes is no news of another service to the others."""
