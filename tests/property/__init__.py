"""Random fleets through the whole engine, beside a calculator that is slow and obviously right."""
