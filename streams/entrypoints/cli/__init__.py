"""The `townclock` command. Groups are imported when they are used, so that `--help` stays fast."""

from __future__ import annotations

import difflib
import importlib
import json
import sys
from collections.abc import Sequence

import click

from streams import __version__
from streams.domain.errors import TownclockError

# command -> (module, attribute, one line of help)
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "audit": ("streams.entrypoints.cli.audit", "audit", "All that is known of one occurrence key or label."),
    "db": ("streams.entrypoints.cli.db", "db", "Create and check the ledger's tables."),
    "deliver": ("streams.entrypoints.cli.deliver", "deliver", "Deliver one region's occurrences (long-running)."),
    "embedded": ("streams.entrypoints.cli.embedded", "embedded", "A broker and a database on this machine."),
    "preview": ("streams.entrypoints.cli.documents", "preview", "What schedules in a file will do, and not do."),
    "processor": ("streams.entrypoints.cli.processor", "processor", "Join ticks with schedules (long-running)."),
    "registrar": ("streams.entrypoints.cli.registrar", "registrar", "Number schedule changes (long-running)."),
    "relay": ("streams.entrypoints.cli.relay", "relay", "Publish the outbox (long-running)."),
    "sandbox": ("streams.entrypoints.cli.sandbox", "sandbox", "A provider to try things on (long-running)."),
    "scenario": ("streams.entrypoints.cli.scenario", "scenario", "Run a shipped scenario end to end."),
    "schedules": ("streams.entrypoints.cli.schedules", "schedules", "Apply, show, pause and delete schedules."),
    "ticker": ("streams.entrypoints.cli.ticker", "ticker", "Publish every UTC minute (long-running)."),
    "topics": ("streams.entrypoints.cli.topics", "topics", "Create and check the topics."),
    "up": ("streams.entrypoints.cli.up", "up", "The whole pipeline on this machine."),
}


class _Lazy(click.Group):
    """A group whose commands are modules, imported by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, sorted."""
        del ctx
        return sorted(_COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; a name that is none is told with its nearest."""
        if args and args[0] not in _COMMANDS and (near := difflib.get_close_matches(args[0], _COMMANDS, 1)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]}?")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or none."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in sorted(_COMMANDS.items())])


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="townclock")
@click.option("--config", metavar="FILE", help="Settings; default: TOWNCLOCK_CONFIG, or ./townclock.toml if there.")
@click.pass_context
def cli(ctx: click.Context, config: str | None) -> None:
    """Recurring reminders and dated obligations, at each customer's own wall-clock time, once."""
    ctx.ensure_object(dict)["config"] = config


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line. Errors that a person can act on are shown without a traceback."""
    try:
        # Outside its standalone mode click gives back the status of ctx.exit().
        status = cli.main(args=None if argv is None else list(argv), prog_name="townclock", standalone_mode=False)
        if isinstance(status, int) and status:
            sys.exit(status)
    except TownclockError as error:
        render = getattr(error, "to_json", None)
        if render is not None and "--json" in (sys.argv[1:] if argv is None else argv):
            click.echo(json.dumps(render(), ensure_ascii=False), err=True)
        else:
            click.echo(str(error), err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except UnicodeEncodeError as error:
        click.echo(f"{error.object!a} can't be written in {error.encoding}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # the reader of our output (head, less) has gone; that is no error of ours
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        refused = _refused_by_database(error)
        if refused is None:
            raise
        click.echo(str(refused), err=True)
        sys.exit(refused.exit_code)


def _refused_by_database(error: Exception) -> TownclockError | None:
    """What a person can act on in an error of psycopg, if it is one; without loading psycopg for it."""
    if "psycopg" not in sys.modules:
        return None
    from streams.adapters.postgres.base import refusal

    return refusal(error)
