"""A registry: the choices that settings name, as one immutable value that callers pass on and
extend.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

from strategies.errors import SettingsError
from strategies.java.pulsar_versions_and_defaults import RELEASES, PulsarRelease, defaults_in


class Choosable(Protocol):
    """Something with a name and a settings class, every field of which has a default."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> type: ...


Choice = TypeVar("Choice", bound=Choosable)


class Registry(Mapping[str, Choice]):
    """Choices by name, in their order. `table`: the settings table whose key `strategy` chooses
    one.

    A registry is compared and hashed by identity. It can be pickled if its choices can.
    """

    __eq__, __hash__ = object.__eq__, object.__hash__

    def __init__(self, table: str, *choices: Choice) -> None:
        self._table, self._choices = table, {choice.name: choice for choice in choices}

    def __getitem__(self, name: str) -> Choice:
        return self._choices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)

    def extended(self, *choices: Choice) -> "Registry[Choice]":
        """A new registry with more choices at its end."""
        return Registry(self._table, *self.values(), *choices)

    def named(self, name: str) -> Choice:
        """The choice of this name. Raises SettingsError for an unknown name."""
        if name not in self:
            raise SettingsError(
                [f"{self._table}.strategy: {name!r} is not known; choose one of {', '.join(self)}"]
            )
        return self[name]

    def settings_of(
        self, name: str, settings: object | None, release: PulsarRelease = RELEASES[0]
    ) -> object:
        """The settings of a choice; None means its defaults in this Pulsar release. Raises
        SettingsError for an unknown name and for settings of another class.
        """
        wanted = self.named(name).settings
        chosen: object = defaults_in(release, wanted) if settings is None else settings
        if not isinstance(chosen, wanted):
            what = "strategy" if self._table == "shedding" else self._table
            raise SettingsError(
                [
                    f"{self._table}.{name}: settings of {type(chosen).__name__} belong to "
                    f"another {what}"
                ]
            )
        return chosen
