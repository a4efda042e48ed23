"""Files and folders that appear completely or not at all, even if the process is killed."""
