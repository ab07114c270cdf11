"""The two kinds of error a person meets: their own input, and the machine's fault."""

from pathlib import Path


class UserError(Exception):
    """A mistake in configuration or in a command's arguments; printed as written, without a traceback.

    ``file`` and ``key`` say where, ``remedy`` what to do.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | Path | None = None,
        key: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.message, self.file, self.key, self.remedy = message, file, key, remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.key) if part)
        text = f"{where}: {self.message}" if where else self.message
        return f"{text}\n  remedy: {self.remedy}" if self.remedy else text


class UserErrors(UserError):
    """Several input mistakes found in one reading, so that they are mended in one go."""

    def __init__(self, errors: list[UserError]) -> None:
        self.errors = errors
        super().__init__("\n".join(str(error) for error in errors))


class InfrastructureFault(Exception):
    """The host's fault or ours: nothing may be concluded about a variant, the job fails and is retried."""

    def __init__(self, message: str, remedy: str | None = None) -> None:
        self.remedy = remedy
        super().__init__(f"{message}\n  remedy: {remedy}" if remedy else message)
