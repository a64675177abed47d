"""Targets that are found instead of listed. In: a configuration, the world. Out: configurations with targets in them.

found, documents           one found target; the lists of file_sd and http_sd, read and bounded
files, web, dns, pods      the four sources, each one answer at a time
assign                     which target belongs to which pool
follow                     all sources, asked again and again; the last good list stands whatever fails
"""

from agent.sources.discovery.follow import DiscoveryFollower, found_once

__all__ = ["DiscoveryFollower", "found_once"]
