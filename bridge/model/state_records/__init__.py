"""Records of Mirror Bridge's own topics on the target: what is read, what is written."""
