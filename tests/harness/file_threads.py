"""The threads that read and close received files, which hang where a file system does."""

import threading


def join_file_threads() -> None:
    """Waits for the threads that read and close files."""
    for thread in threading.enumerate():
        if thread.name == "forebay-files":
            thread.join()
