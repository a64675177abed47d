"""The state in a terminal. In: `/api/v1/state` of a running pdwatch, and keys. Out: lines that fit, kept up to date.

Pure rendering (document -> lines) stands apart from the network, the keys and the screen. What comes over the wire was
written by others, maybe by an older or newer pdwatch: nothing in it can move the cursor, and nothing missing breaks it.
"""
