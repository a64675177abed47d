"""Manifests for Kubernetes, by kustomize. In: the configuration. Out: file name -> text.

base                     pdwatch itself: Deployment, Service, state, rights, network policy, the configuration
components/monitoring    for the Prometheus operator: scrapes of pdwatch and its sidecars, rules on them
components/vllm-metrics  for the Prometheus operator: scrapes of vLLM's own pages
components/dashboards    boards as labelled ConfigMaps, for Grafana's dashboard sidecar
components/sidecar       a patch that puts a pdwatch beside every vLLM server
"""
