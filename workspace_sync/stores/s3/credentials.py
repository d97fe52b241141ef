"""Credentials in a file, read again when it is time: what an operator renews there holds without a restart.

Only for keys that a credentials file holds as they are. What comes from variables stays what it was; roles, processes
and the machine's own credentials botocore renews by itself.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.credentials import CredentialProvider, RefreshableCredentials, SharedCredentialProvider
from botocore.exceptions import BotoCoreError

RENEW_SECONDS = 60.0
"""How long what was read holds before the file is read again."""
_SLACK_SECONDS = 3600
"""How long before they are said to expire botocore renews them: they never do."""
_FILES = SharedCredentialProvider.METHOD


def renew_from_files(session: Any) -> None:
    """Let this botocore session read credentials files again and again; before its first client is made."""
    session.get_component("credential_provider").insert_before(_FILES, _RenewedFile(session))


class _RenewedFile(CredentialProvider):
    METHOD = "renewed-credentials-file"
    CANONICAL_NAME = None

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._last: dict[str, Any] = {}

    def load(self) -> RefreshableCredentials | None:
        if not self._read():
            return None
        found = self._renew()
        return RefreshableCredentials(
            found["access_key"],
            found["secret_key"],
            found["token"],
            datetime.fromisoformat(found["expiry_time"]),
            refresh_using=self._renew,
            method=self.METHOD,
            advisory_timeout=_SLACK_SECONDS,
            mandatory_timeout=_SLACK_SECONDS,
        )

    def _renew(self) -> dict[str, Any]:
        """What the file says now; what it said last when it cannot be read, as while it is written."""
        self._read()
        until = datetime.now(UTC) + timedelta(seconds=RENEW_SECONDS + _SLACK_SECONDS)
        return {**self._last, "expiry_time": until.isoformat()}

    def _read(self) -> bool:
        name = self.session.get_config_variable("credentials_file")
        profile = self.session.get_config_variable("profile") or "default"
        try:
            found = SharedCredentialProvider(name, profile_name=profile).load()
        except (BotoCoreError, OSError):
            found = None
        if found is not None:
            self._last = {"access_key": found.access_key, "secret_key": found.secret_key, "token": found.token}
        return bool(self._last)
