"""`bertcnn jobs`: background jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from bertcnn.cli.console import command_line, print_message, show
from bertcnn.cli.options import argument, option
from bertcnn.cli.review import Name, Store, opened, person
from bertcnn.wording import count

if TYPE_CHECKING:
    from bertcnn.review.jobs import Job

jobs_app = typer.Typer(
    help="List, show, cancel, restart and remove the dashboard's jobs.", no_args_is_help=True
)

Id = Annotated[str, argument("Name from `bertcnn jobs list`.", metavar="ID")]


@jobs_app.command("list")
def list_(store: Store, most: Annotated[int, option("Jobs at most.", min=1)] = 20) -> None:
    """List the latest jobs, the last one first."""
    from rich import box
    from rich.table import Table

    from bertcnn.cli.screen import Screen
    from bertcnn.review.jobs import list_jobs

    jobs = list_jobs(opened(store), most=most)
    if not jobs:
        show("no jobs")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("id", "state", "started", "command"):
        table.add_column(column, no_wrap=True)
    table.add_column("progress", overflow="fold")
    for job in jobs:
        table.add_row(job.id, _state(job), _time(job.created_at), job.command, _news(job))
    Screen().print(table)


@jobs_app.command("show")
def show_(id: Id, store: Store) -> None:
    """Show a job: its command, how far it is, why it failed, and where its log is."""
    from bertcnn.review.jobs import job_status

    job = job_status(opened(store), id)
    rows = {
        "id": job.id,
        "state": _state(job),
        "progress": "" if job.ended_at else _news(job),
        "message": job.message,
        "command": command_line(*job.arguments),
        "folder": job.folder,
        "by": job.actor,
        "created": _time(job.created_at),
        "started": _time(job.started_at),
        "ended": _time(job.ended_at),
        "starts": str(job.starts),
        "exit code": "" if job.exit_code is None else str(job.exit_code),
        "process": "" if job.pid is None or job.ended_at else f"{job.pid} on {job.host}",
        "log": str(job.log),
    }
    for name, value in rows.items():
        if value:
            show(f"{name:<13} {value}")


@jobs_app.command()
def cancel(id: Id, store: Store, name: Name = None) -> None:
    """End a job as Ctrl-C does.

    Finished work is kept, and `restart` goes on from there.
    """
    from bertcnn.review.jobs import cancel_job

    job = cancel_job(opened(store), id, person(name))
    if job.ended_at is None:
        print_message(f"{job.id} ends at the next step of its command.")
    else:
        print_message(f"{job.id} has ended already: {job.state}.")


@jobs_app.command()
def restart(
    store: Store,
    id: Annotated[
        str | None,
        argument(
            "A job that failed or was cancelled.", default="all without a process", metavar="ID"
        ),
    ] = None,
    name: Name = None,
) -> None:
    """Run a job again, or all jobs without a process, as after a reboot.

    Commands go on where they were.
    """
    from bertcnn.review.jobs import restart_dead_jobs, restart_job

    opened_store = opened(store)
    if id is None:
        started = restart_dead_jobs(opened_store)
    else:
        started = [restart_job(opened_store, id, person(name))]
    for job in started:
        print_message(f"Started {job.id} again: {job.command}")
    if id is None:
        print_message(f"{count(len(started), 'job')} had no process.")


@jobs_app.command()
def remove(id: Id, store: Store, name: Name = None) -> None:
    """Forget a job that has ended, with its log and its files."""
    from bertcnn.review.jobs import remove_job

    remove_job(opened(store), id, person(name))
    print_message(f"{id} is removed.")


def _state(job: Job) -> str:
    if job.dead:
        return "process gone"
    return "being cancelled" if job.cancelled and job.ended_at is None else job.state


def _news(job: Job) -> str:
    if job.ended_at is not None:
        return job.message.partition(";")[0]
    progress = job.progress
    share = "" if progress.share is None else f" {progress.share:.0%}"
    left = progress.left and f", about {progress.left} left"
    return f"{progress.stage}{share}{left}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "minutes").removesuffix("+00:00")
