"""Prometheus rules, from the objectives and the verdicts' own arithmetic; all of it is written by `files.alert_files`.

model, promql, identity, wording, thresholds       what rules are made of
vllm_source, pdwatch_source                        where their numbers come from
objectives, burn_rates, watch_*, own_rules         the rules
families                                           the two families, whole
prometheus, grafana, alertmanager, scraping        how they are written
trials                                             their tests, made with them
"""
