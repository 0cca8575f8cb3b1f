"""Groups' committed offsets, translated and written round by round."""
