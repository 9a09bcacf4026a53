"""Topics of a test by their URIs."""

from collections.abc import Mapping
from dataclasses import fields

from sinks.topics.topic_settings import Topics, TopicUri, parse_topic


def topics_of(**uris: str) -> Topics:
    """The six topics, those that are not named at their defaults."""
    return Topics(**{name: parse_topic(uri) for name, uri in uris.items()})


def topic_of(uri: str | TopicUri) -> TopicUri:
    """A topic by its URI, for helpers that take either."""
    return parse_topic(uri) if isinstance(uri, str) else uri


def topic_settings(topics: Topics | Mapping[str, object]) -> dict[str, object]:
    given = (
        topics
        if isinstance(topics, Mapping)
        else {field.name: getattr(topics, field.name) for field in fields(topics)}
    )
    return {f"topics.{name}": uri for name, uri in given.items()}
