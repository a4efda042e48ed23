"""Files and folders that appear whole or not at all, whatever kills the process."""
