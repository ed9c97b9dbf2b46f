"""The policies under the settings of cases."""

from __future__ import annotations

from fairlead.policy.cases import Case
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


class CasePolicies:
    """The policies `whole`, by default the project's, and what the settings of each case make of
    them. Many cases have the same settings.
    """

    def __init__(self, whole: PolicySet | None = None) -> None:
        self.whole = whole or PolicySet.load(Settings())
        self._by_settings: dict[str, PolicySet] = {}

    def of(self, case: Case) -> PolicySet:
        """The policies under the settings of a case, with its exceptions. Raises InputError,
        UsageError.
        """
        return self.under(case.settings).excepting(case.exceptions)

    def under(self, settings: Settings) -> PolicySet:
        """The policies under these settings. Raises InputError, UsageError."""
        key = settings.model_dump_json()
        if key not in self._by_settings:
            self._by_settings[key] = self.whole.under(settings)
        return self._by_settings[key]
