"""Background jobs: processes that survive a restart of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.review.jobs.command import replace_process as replace_process
    from bertcnn.review.jobs.job import Job as Job
    from bertcnn.review.jobs.jobs import UPLOADS as UPLOADS
    from bertcnn.review.jobs.jobs import cancel_job as cancel_job
    from bertcnn.review.jobs.jobs import job_status as job_status
    from bertcnn.review.jobs.jobs import list_jobs as list_jobs
    from bertcnn.review.jobs.jobs import new_folder as new_folder
    from bertcnn.review.jobs.jobs import remove_job as remove_job
    from bertcnn.review.jobs.jobs import restart_dead_jobs as restart_dead_jobs
    from bertcnn.review.jobs.jobs import restart_job as restart_job
    from bertcnn.review.jobs.jobs import start_job as start_job

__getattr__, __dir__, __all__ = door(__name__)
