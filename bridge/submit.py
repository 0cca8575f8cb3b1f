"""Runs a copy by spark-submit, in client mode (docs/spark.md):

    spark-submit --master … bridge/submit.py --config mirror.properties

It is `mirror-bridge replicate`, with the settings that spark-submit was given.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from pathlib import Path


def main() -> None:
    # Python puts the directory of a script first: our modules must not be found there under other names.
    sys.path[:] = [
        text for text in sys.path if Path(text or ".").resolve() != Path(__file__).resolve().parent
    ]
    import typer

    from bridge.commands.exit_status import BAD_SETTINGS, note
    from bridge.commands.replicate import replicate
    from bridge.pipeline.driver.submitting import is_submitted

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(replicate)
    if not is_submitted():
        note("this is for spark-submit; without it, run mirror-bridge replicate")
        sys.exit(BAD_SETTINGS)
    threading.Thread(target=_end_with_spark, name="end with Spark", daemon=True).start()
    app()


def _end_with_spark() -> None:
    """Ends the copy when the JVM of spark-submit ends, which has the other end of standard input, and nothing to say
    there."""
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
