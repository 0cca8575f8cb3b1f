"""Requests over plain HTTP."""

from __future__ import annotations

import ssl

NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For httpx's `verify` where nothing is encrypted: by default it loads all authorities of certifi for each request,
which takes more processor time than the request."""
