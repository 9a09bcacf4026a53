"""Topics of a test by their URIs."""

from sinks.topics.addresses import Topics, TopicUri, parse_topic


def topics_of(**uris: str) -> Topics:
    """The six topics, those that are not named at their defaults."""
    return Topics(**{name: parse_topic(uri) for name, uri in uris.items()})


def topic_of(uri: str | TopicUri) -> TopicUri:
    """A topic by its URI, for helpers that take either."""
    return parse_topic(uri) if isinstance(uri, str) else uri
