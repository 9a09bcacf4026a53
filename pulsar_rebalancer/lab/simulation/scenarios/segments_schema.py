"""Scalable topics of Pulsar 5.0 in scenario files: when a topic's segments are split and merged."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from pulsar_rebalancer.lab.simulation.scenarios.noise_schema import (
    Fraction,
    NotNegative,
    Positive,
    StrictModel,
    Whole,
)


class SegmentRates(StrictModel):
    """Thresholds of one segment's traffic, a second; `mb`: 1,000,000 bytes, as in broker.conf."""

    messages_in: Positive
    mb_in: Positive
    messages_out: Positive
    mb_out: Positive

    def ratios(self, rate_in: float, rate_out: float, message_bytes: float) -> tuple[float, ...]:
        """Traffic (messages/s) ÷ threshold, in the order of the fields."""
        mb = message_bytes / 1e6
        return (
            rate_in / self.messages_in,
            rate_in * mb / self.mb_in,
            rate_out / self.messages_out,
            rate_out * mb / self.mb_out,
        )


_SPLIT = SegmentRates(messages_in=10_000, mb_in=50, messages_out=50_000, mb_out=250)
_MERGE = SegmentRates(messages_in=1_000, mb_in=5, messages_out=5_000, mb_out=25)


class Segments(StrictModel):
    """The traffic is that of `topics` scalable topics, which begin with `initial` segments each.
    The other keys are those of broker.conf that begin with `scalableTopic` (PIP-483), with their
    defaults; `report_change` is scalableTopicLoadReportRateChangeThreshold.
    """

    topics: Whole = 1
    initial: Annotated[int, Field(ge=1, le=1024)] = 1
    max_segments: Annotated[int, Field(ge=1, le=1024)] = 64
    min_segments: Annotated[int, Field(ge=1, le=1024)] = 1
    max_dag_depth: Annotated[int, Field(ge=0)] = 10
    split_cooldown_s: NotNegative = 60
    merge_cooldown_s: NotNegative = 300
    merge_window_s: NotNegative = 300
    report_change: Fraction = 0.25
    split: SegmentRates = _SPLIT
    merge: SegmentRates = _MERGE

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.min_segments > self.max_segments:
            raise ValueError("min_segments must not be more than max_segments")
        for name in SegmentRates.model_fields:
            if getattr(self.split, name) <= getattr(self.merge, name):
                raise ValueError(f"split.{name} must be more than merge.{name}, as Pulsar demands")
        return self
