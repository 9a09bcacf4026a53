"""The tree of errors that every layer raises; a message always says what to do next.

RebalancerError
├── SettingsError
├── ContractError
├── StateVersionError
├── WireError
├── SinkError
│   ├── OffsetGone (sinks.topics.files.segments)
│   ├── PublishTimeout
│   ├── PublishRejected
│   └── JournalInUse (sinks.executor.journal)
├── AdminError
│   ├── CallFailed
│   │   ├── BrokerUnavailable
│   │   │   ├── Unanswered (sinks.pulsar_api.admin_errors)
│   │   │   ├── Busy (sinks.pulsar_api.admin_errors)
│   │   │   └── _NeverSent (sinks.pulsar_api.http)
│   │   ├── NotOwned
│   │   │   └── Elsewhere (sinks.pulsar_api.admin_errors)
│   │   ├── NotFound
│   │   │   └── Missing (sinks.pulsar_api.admin_errors)
│   │   └── Refused
│   │       └── Declined (sinks.pulsar_api.admin_errors)
│   └── Unauthorized
├── Stopped (sinks.executor.executor)
├── JobError (streaming.failures)
├── JobStopping (streaming.outputs.output_topics)
├── CheckpointInUse (streaming.checkpoint.guard)
├── JarsMissing (streaming.jars.locked_jars)
├── SparkStartError (streaming.spark_session)
├── WorkerLost (pulsar_rebalancer.lab.processes)
├── UnknownSubject (pulsar_rebalancer.decisions.explain.subject)
├── PlanError (pulsar_rebalancer.decisions.plans)
├── IntentError (pulsar_rebalancer.decisions.intents)
└── ChildFailed (pulsar_rebalancer.cli.child_process)

Other exceptions never leave the module or package that defines them.
"""


class RebalancerError(Exception):
    """Base of all errors of this project; `retryable` says whether the same call may succeed
    later.
    """

    retryable: bool = False


class SettingsError(RebalancerError):
    """Settings that cannot be used. `complaints` holds one line each, starting with the dotted
    path.
    """

    def __init__(self, complaints: list[str]) -> None:
        super().__init__("; ".join(complaints))
        self.complaints = complaints


def raise_complaints(complaints: list[str]) -> None:
    """Raises SettingsError if there are any."""
    if complaints:
        raise SettingsError(complaints)


class ContractError(RebalancerError):
    """An invariant of this project does not hold: a bug, please report it."""


class StateVersionError(RebalancerError):
    """State written by a version, or with settings, that this version cannot continue."""


class WireError(RebalancerError):
    """A record that cannot be decoded; it becomes a row on the rejected topic."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class SinkError(RebalancerError):
    """A topic could not be read or written."""


class PublishTimeout(SinkError):
    """The topic did not confirm in time."""

    retryable = True


class PublishRejected(SinkError):
    """The topic refused the record."""


class AdminError(RebalancerError):
    """The admin REST API of a Pulsar broker answered with an error."""


class CallFailed(AdminError):
    """One call failed; another one may succeed, also with the same token."""


class BrokerUnavailable(CallFailed):
    """The broker did not answer, or answered that it cannot now."""

    retryable = True


class NotOwned(CallFailed):
    """The broker does not own the bundle, or ownership is changing."""

    retryable = True


class NotFound(CallFailed):
    """Namespace, bundle or broker does not exist."""


class Refused(CallFailed):
    """The broker understood the call and declined it."""


class Unauthorized(AdminError):
    """The token is missing, broken, or has no super-user rights."""
