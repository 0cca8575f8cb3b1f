"""Routes, a file for each first part of the path. They parse, call the service, and shape the answer."""
