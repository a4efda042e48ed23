"""What the tests of the commands assert of an exit code, the output and a folder."""


def refused(result, *words, code=2):
    """Assert that the command printed one line with these words and this exit code."""
    ended, _, err = result
    last = err.strip().splitlines()[-1]
    assert ended == code, err
    assert last.startswith("bertcnn: ")
    assert "Traceback" not in err
    for word in ("expected", "What to do", *words):
        assert word in last, last


def left(folder):
    """The names of a folder's files, hidden ones included."""
    return sorted(path.name for path in folder.iterdir())
