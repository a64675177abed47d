"""Grafana boards, made from the catalogue and the objectives. In: the configuration. Out: JSON, and provisioning files.

queries, vllm_queries                         PromQL on pdwatch's metrics, and on vLLM's own
panels, looks, layout, frame, portable        what every board is built from
promises                                      what the objectives say: target lines, thresholds
overview ... own_board, vllm_overview ...     one board each
boards, write, provisioning, panel_table      which boards there are, and how they reach a folder
"""
