"""Where the world is read: pages, processes, spans, recordings; timestamped observations come out."""
