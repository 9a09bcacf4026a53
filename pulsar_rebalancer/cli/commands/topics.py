"""`rebalancer topics`: creates the topics of the settings on Kafka and Pulsar."""

from collections.abc import Mapping
from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, options
from sinks.topics.topic_admin import Made, TopicPlan, create_or_keep
from strategies.errors import SettingsError

app = typer.Typer(
    no_args_is_help=True, help="Create the topics of the settings on Kafka and Pulsar."
)

_SENTENCES: Mapping[Made, str] = {
    "created": "created",
    "updated": "already exists; its retention and inactive topic policies are set",
    "left": "already exists, unchanged",
}


_Partitions = Annotated[
    int,
    typer.Option(
        min=1,
        max=10_000,
        metavar="N",
        help="Partitions per topic; a cluster's records share one.",
    ),
]
_Replication = Annotated[
    int,
    typer.Option(
        min=-1,
        max=100,
        metavar="N",
        help="Replicas per partition; -1 is the cluster's own default.",
    ),
]


@app.callback()
def root() -> None:
    """Create the topics of the settings on Kafka and Pulsar."""


@app.command(short_help="Create the topics that are missing.")
def create(
    *,
    partitions: _Partitions = 1,
    replication: _Replication = -1,
    retention_hours: Annotated[
        int, typer.Option(min=1, max=87_600, metavar="N", help="Minimum retention of records.")
    ] = 168,
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Also set the retention and inactive topic policies of existing Pulsar topics.",
        ),
    ] = False,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Create the topics that are missing on Kafka or Pulsar; existing ones stay unchanged.

    No topic is compacted: the key of a record is its cluster, so compaction would delete all but
    the newest record of each cluster. On Pulsar, where replication is set on the namespace, one
    partition creates a non-partitioned topic. Pulsar topics get a retention, and brokers do not
    delete them while they are idle.
    """
    connections = options.installation(config, overrides).connections
    served = {name: topic for name, topic in connections.topics.named() if topic.scheme != "file"}
    if not served:
        raise SettingsError(
            [
                "topics: all are folders, which are created on first use; set "
                "topics.telemetry and the others to kafka:// or pulsar://"
            ]
        )
    plan = TopicPlan(partitions, replication, retention_hours * 3_600_000)
    done = {
        name: create_or_keep(topic, plan.for_topic(name), connections, update)
        for name, topic in served.items()
    }
    rows = [
        {
            "name": name,
            "uri": str(served[name]),
            "created": one == "created",
            "updated": one == "updated",
        }
        for name, one in done.items()
    ]
    lines = (f"{served[name]}: {_SENTENCES[one]}" for name, one in done.items())
    console.answer("topics", {"topics": rows}, *lines, as_json=as_json)
