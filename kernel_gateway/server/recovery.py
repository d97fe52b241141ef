"""The way back for an administrator who has lost every token: another one, made by root on the service's host."""

from __future__ import annotations

import os
import time
import uuid

import msgspec

from kernel_gateway.errors import StartRefused
from kernel_gateway.identity.principal import hash_token, new_token
from kernel_gateway.server.token_file import make_local_url, open_token_file
from kernel_gateway.services.credentials.authentication import ADMIN
from kernel_gateway.settings import Settings
from kernel_gateway.storage import principals
from kernel_gateway.storage.database import writing
from kernels.launcher import token_file as launcher


class Recovered(msgspec.Struct, frozen=True):
    """A new token of the administrator, and where it is saved; empty with the reason when it could not be."""

    token: str
    token_id: str
    path: str
    error: str


def recover_token(settings: Settings) -> Recovered:
    """Make a token of `admin` in the database, and save it for the user who asks; earlier ones count on.

    A service that runs takes it at once: it asks the database for tokens that it does not know. Raises StartRefused.
    """
    if os.geteuid() != 0:
        raise StartRefused("only root may make a token without one: run this on the service's host with sudo")
    token, token_id = new_token(), str(uuid.uuid4())
    with writing(settings.database_url) as connection:
        owner = principals.find_by_name(connection, ADMIN)
        if owner is None:
            raise StartRefused("the service has not been started yet: its first start makes a token and prints it")
        digest = hash_token(token)
        principals.add_token(connection, owner, token_id=token_id, name="recovered", digest=digest, now=time.time())
    return Recovered(token, token_id, *_save(settings, token))


def _save(settings: Settings, token: str) -> tuple[str, str]:
    """Where the token was saved, or why not."""
    if not settings.port:
        return "", "the setting port names no port"
    file = open_token_file()
    if file.descriptor < 0:
        return "", file.error
    try:
        launcher.TokenFile(file.plan(make_local_url(settings, settings.port))).save(token)
    except OSError as error:
        return "", str(error)
    finally:
        os.close(file.descriptor)
    return file.path, ""
