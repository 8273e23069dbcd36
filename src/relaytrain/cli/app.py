"""`relaytrain`: the verbs in one app, and the one place where errors become exit statuses."""

from __future__ import annotations

import errno
import gc
import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any, NoReturn

import click
import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from ..core.errors import RelayTrainError, StoppedByUser, UsageError, interrupted
from ..core.notices import hearing
from .completion import preset_names
from .output import complain, note, talk
from .signals import deafen, signals

BUG = 1
INTERRUPTED = 130
"""What typer makes of Ctrl-C; no verb ends with it."""
ABOUT_PATHS = {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EACCES}
"""What the operating system has against a path that somebody named."""
LONG_PATH = 120
HELP = """Train a network as a relay: a loss target by a deadline at least energy.

SCENARIO is a TOML or JSON file or a preset ({presets}), by default quickstart.
"""
EXAMPLES = """\b
First steps: relaytrain plan, the embedded quickstart and why; relaytrain run, the same trained for real
  relaytrain new my.toml, a scenario of your own; then: relaytrain plan my.toml --set target.deadline=5m
Exit status: 0 done or met, 2 usage, 3 bad scenario, 4 infeasible, 1 our bug; of a run also 5 to 10 (run --help).
"""

VERBS = (
    "run", "plan", "compare", "simulate", "front", "validate", "new", "schema", "reproduce", "resume", "stop",
    "ls", "show", "rm", "report", "audit", "ui", "export", "doctor", "profile", "atlas", "scout", "collect", "fit",
    "evaluate", "node", "nodes",
)  # fmt: skip
"""In the order of `--help`; verb `v` is the function `v` of the module `v` beside this file."""
WITHOUT_TRACE = ("validate", "plan")
"""Verbs that hold no file, thread or process when they return: nothing has to be closed behind them."""
GROUPS = ("pipeline", "store", "flower")
"""Modules that hold verbs of their own: `relaytrain store check`."""


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"relaytrain {version('relaytrain')}")
        raise typer.Exit


def _heard(context: click.Context, option: click.Parameter, value: bool) -> None:
    setattr(talk, str(option.name), value)


class _PlainCommand(TyperCommand):
    """A verb, which is told also how much to say. Its help is plain text: nothing is escaped for a reader of markup."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        for words, help in ("quiet", "Only the result and errors."), ("verbose", "Tracebacks of unexpected errors."):
            names = [words, f"--{words}", f"-{words[0]}"]
            self.params.append(
                TyperOption(param_decls=names, is_flag=True, expose_value=False, callback=_heard, help=help)
            )

    def get_help(self, ctx: click.Context) -> str:
        return super().get_help(ctx).replace("\\[", "[")


class _PlainGroup(TyperGroup):
    """As `_PlainCommand`."""

    def get_help(self, ctx: click.Context) -> str:
        return super().get_help(ctx).replace("\\[", "[")


def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="The version."),
) -> None:
    """Options before the verb; without one, help is what is asked for."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@cache
def _app(names: Sequence[str], *, listed: bool = False) -> typer.Typer:
    """The command line with these verbs and groups; `listed`: only to be shown, so without their options."""
    app = typer.Typer(
        name="relaytrain",
        cls=_PlainGroup,
        help=HELP.format(presets=", ".join(preset_names())),
        epilog=EXAMPLES,
        invoke_without_command=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_root)
    for name in names:
        module = import_module(f".{name}", __package__)
        if listed:
            short = module.app.info.short_help or module.app.info.help if name in GROUPS else module.SHORT
            app.command(name=name, short_help=short)(_nothing)
        elif name in GROUPS:
            for command in module.app.registered_commands:
                command.cls = _PlainCommand
            app.add_typer(module.app, name=name, cls=_PlainGroup)
        else:
            app.command(
                name=name, cls=_PlainCommand, help=module.HELP, short_help=module.SHORT, epilog=module.EXAMPLES
            )(getattr(module, name))
    return app


def _nothing() -> None:
    """Stands for a verb in a list of them: describing the options of all is most of the time of `--help`."""


def _named(arguments: Sequence[str]) -> tuple[str, ...]:
    """The verb that is asked for, alone: importing and describing all of them is a third of a quick verb's time."""
    typed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
    if "_RELAYTRAIN_COMPLETE" in os.environ and len(typed.split()) > 1:
        arguments = typed.split()[1:]  # a shell asks what may come next
    first = arguments[0] if arguments else ""
    return (first,) if first in VERBS or first in GROUPS else (*VERBS, *GROUPS)


def _only_lists(arguments: Sequence[str]) -> bool:
    """Whether the verbs are shown and none is called."""
    return not arguments or arguments[0] in ("-h", "--help", "--version")


def _start_quickly(verb: str) -> None:
    """Habits of a long-lived server that a command line of half a second need not pay for."""
    # importing makes hundreds of thousands of objects, hardly any of them garbage; a verb that trains frees them sooner
    gc.set_threshold(1_000_000 if verb in WITHOUT_TRACE else 50_000)
    # else every package's metadata is read
    if os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__") == "__all__":
        # Its loader imports the readers of metadata, `email` too, even to find nothing: a twentieth of `validate`.
        sys.modules.setdefault("pydantic.plugin._loader", SimpleNamespace(get_plugins=tuple))  # type: ignore[arg-type]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread a process; numpy starts them all on import


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit status."""
    talk.quiet = talk.verbose = False
    talk.arguments = tuple(sys.argv[1:] if arguments is None else arguments)
    _start_quickly(talk.arguments[0] if talk.arguments else "")
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        with hearing(note), signals.handled():
            return _called(arguments)
    except BaseException as error:  # a signal that came while the end was being said
        if not (signals.broke or interrupted(error)):
            raise
        return _fail("stopped", StoppedByUser.exit_status)


def _called(arguments: Sequence[str] | None) -> int:
    """The verb's exit status; errors become words."""
    words = sys.argv[1:] if arguments is None else arguments
    listed = _only_lists(words) and "_RELAYTRAIN_COMPLETE" not in os.environ
    try:
        status = _app(_named(words), listed=listed)(args=arguments, prog_name="relaytrain", standalone_mode=False)
    except BaseException as error:
        if signals.broke or interrupted(error):
            return _fail("stopped", StoppedByUser.exit_status)
        if not isinstance(error, Exception):
            raise
        return _failed(error)
    if status == INTERRUPTED:
        return _fail("stopped", StoppedByUser.exit_status)
    return status if isinstance(status, int) else 0


def _failed(error: Exception) -> int:
    """What is said of an error, and the exit status that it means."""
    if isinstance(error, RelayTrainError):
        from ..core.user_code import UserCodeError

        if talk.verbose and isinstance(error, UserCodeError) and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        return _fail(str(error), error.exit_status)
    if isinstance(error, click.UsageError):
        return _fail(_usage(error), UsageError.exit_status)
    if isinstance(error, click.ClickException):
        return _fail(error.format_message(), UsageError.exit_status)
    if isinstance(error, click.Abort):
        return _fail("stopped", StoppedByUser.exit_status)
    if isinstance(error, OSError) and error.errno in ABOUT_PATHS and error.filename is not None:
        named = str(error.filename)
        path = named if len(named) <= LONG_PATH else f"{named[: LONG_PATH // 2]}...{named[-LONG_PATH // 2 :]}"
        return _fail(f"{path}: {error.strerror}; choose another path", UsageError.exit_status)
    return _unexpected(error)  # the last resort: nothing a user does may end in a bare traceback


def command() -> NoReturn:
    """The process `relaytrain`: `main`, then the end, without the second that taking the interpreter apart may cost."""
    deafen()  # before and behind `main`, which hears
    status = main()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    if _named(sys.argv[1:])[0] in WITHOUT_TRACE:
        os._exit(status)
    gc.freeze()  # nothing left is worth being searched for garbage
    sys.exit(status)


def _usage(error: click.UsageError) -> str:
    verb = error.ctx.command_path if error.ctx is not None else "relaytrain"
    words = re.sub(r"( Did you mean [^?]*\?)\1+", r"\1", error.format_message())  # typer and click both suggest
    return f"{words}\nhelp: {verb} --help"


def _unexpected(error: Exception) -> int:
    if talk.verbose or os.environ.get("RELAYTRAIN_TRACEBACK"):
        traceback.print_exc()
        return _fail(f"unexpected {type(error).__name__}: {error}", BUG)
    words = str(error).splitlines()[0] if str(error) else "no further words"
    return _fail(
        f"unexpected {type(error).__name__}: {words}\nthis is a bug of relaytrain; add -v for the traceback", BUG
    )


def _fail(words: str, status: int) -> int:
    complain(words)
    return status
