"""Grafana boards, made from the catalogue and the objectives. In: the configuration. Out: JSON, and provisioning files.

queries, vllm_queries                         PromQL on pdwatch's metrics, and on vLLM's own
panels, looks, layout, frame, portable        what every board is built from
promises                                      what the objectives say: target lines, thresholds
overview ... itself, vllm_overview ...        one board each; itself_told holds rows of itself
boards, write, provisioning                   which boards there are, and how they reach a folder
answers, panel_table                          what each query had an answer to, as a table for the documents
"""
