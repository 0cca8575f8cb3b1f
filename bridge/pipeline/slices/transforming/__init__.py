"""Records on their way through transforms. Imported only where some are configured: it takes pyarrow."""
