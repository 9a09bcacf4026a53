"""What a broker of Pulsar answers at /metrics/, as far as the boards use it: text by hand, after
Pulsar's source (UnloadCounter, AssignCounter, SplitCounter, ModularLoadManagerImpl,
NamespaceStatsAggregator), not a recording of a broker.

Names with `…_count` are those before, and with `…_total` those since apache/pulsar#16611.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_USAGE = """\
# TYPE pulsar_lb_cpu_usage gauge
pulsar_lb_cpu_usage{cluster="prod",broker="b1",metric="loadBalancing"} 43.5
# TYPE pulsar_lb_memory_usage gauge
pulsar_lb_memory_usage{cluster="prod",broker="b1",metric="loadBalancing"} 61.0
"""

OLD = f"""{_USAGE}\
# TYPE pulsar_topics_count gauge
pulsar_topics_count{{cluster="prod"}} 12
pulsar_topics_count{{cluster="prod",namespace="shop/orders"}} 12
# TYPE pulsar_throughput_in gauge
pulsar_throughput_in{{cluster="prod"}} 1048576.0
pulsar_throughput_in{{cluster="prod",namespace="shop/orders"}} 1048576.0
# TYPE pulsar_throughput_out gauge
pulsar_throughput_out{{cluster="prod"}} 2097152.0
pulsar_throughput_out{{cluster="prod",namespace="shop/orders"}} 2097152.0
# TYPE pulsar_lb_unload_broker_count gauge
pulsar_lb_unload_broker_count{{cluster="prod",metric="bundleUnloading"}} 2
# TYPE pulsar_lb_unload_bundle_count gauge
pulsar_lb_unload_bundle_count{{cluster="prod",metric="bundleUnloading"}} 7
# TYPE pulsar_lb_bundles_split_count gauge
pulsar_lb_bundles_split_count{{cluster="prod",metric="bundlesSplit"}} 1
"""

_REASONS = {
    "Success": ("Overloaded", "Underloaded", "Admin"),
    "Skip": (
        "HitCount",
        "NoBundles",
        "CoolDown",
        "OutDatedData",
        "NoLoadData",
        "NoBrokers",
        "Unknown",
    ),
    "Failure": ("Unknown",),
}
_BREAKDOWN = "".join(
    'pulsar_lb_unload_broker_breakdown_total{cluster="prod",broker="b1",'
    f'metric="bundleUnloading",reason="{reason}",result="{result}"}} 3\n'
    for result, reasons in _REASONS.items()
    for reason in reasons
)
_ASSIGNMENTS = "".join(
    "pulsar_lb_assign_broker_breakdown_total"
    f'{{cluster="prod",broker="b1",metric="assign",result="{result}"}} 5\n'
    for result in ("Success", "Empty", "Skip")
)

NEW = f"""{_USAGE}\
# TYPE pulsar_broker_topics_count gauge
pulsar_broker_topics_count{{cluster="prod"}} 12
# TYPE pulsar_topics_count gauge
pulsar_topics_count{{cluster="prod",namespace="shop/orders"}} 12
# TYPE pulsar_broker_throughput_in gauge
pulsar_broker_throughput_in{{cluster="prod"}} 1048576.0
# TYPE pulsar_broker_throughput_out gauge
pulsar_broker_throughput_out{{cluster="prod"}} 2097152.0
# TYPE pulsar_lb_unload_broker_total gauge
pulsar_lb_unload_broker_total{{cluster="prod",broker="b1",metric="bundleUnloading"}} 2
# TYPE pulsar_lb_unload_bundle_total gauge
pulsar_lb_unload_bundle_total{{cluster="prod",broker="b1",metric="bundleUnloading"}} 7
# TYPE pulsar_lb_unload_broker_breakdown_total gauge
{_BREAKDOWN}\
# TYPE pulsar_lb_bundles_split_total gauge
pulsar_lb_bundles_split_total{{cluster="prod",broker="b1",metric="bundlesSplit"}} 1
# TYPE pulsar_lb_assign_broker_breakdown_total gauge
{_ASSIGNMENTS}"""


@contextmanager
def broker_serving(text: str) -> Iterator[str]:
    """The address (host:port) of a server that gives this text."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Writes nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
