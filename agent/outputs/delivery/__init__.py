"""Alerts on their way to people. In: the alerts as they are now. Out: posts to receivers, and figures about them.

delivery                                all ways, running
alertmanager                            the whole set, again and again, to every Alertmanager
notices, queue, ledger, lease           one begin and one end per incident, by one of the replicas
webhook, pagerduty, slack               what each receiver is sent
muting, backoff, answers, secret, times maintenance windows, waiting, statuses, secrets, moments
figures                                 what is known of each way
test_page                               a marked page by every way
"""

from agent.outputs.delivery.delivery import Delivery
from agent.outputs.delivery.figures import DeliveryFigures, ReceiverFigures

__all__ = ["Delivery", "DeliveryFigures", "ReceiverFigures"]
