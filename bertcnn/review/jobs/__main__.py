"""`python -m bertcnn.review.jobs STORE ID`: runs a job to its end."""

import sys

from bertcnn.review.jobs.runner import run_job
from bertcnn.review.store import open_review

if __name__ == "__main__":
    run_job(open_review(sys.argv[1], create=False), sys.argv[2])
