"""Windows: readings one after another come in, what happened in the last N seconds goes out."""
