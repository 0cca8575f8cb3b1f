"""Record batches as bytes: headers, compression, decoding, rebuilding."""
