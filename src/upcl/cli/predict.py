"""`upcl predict`: classify images with a model."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .console import report_errors, stdout_console
from .options import DEVICE, MODEL, PATH, SPREADSHEET_SAFE


@click.command()
@MODEL
@click.argument("images", nargs=-1, required=True, metavar="IMAGE...", type=PATH)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="json: one JSON object per line and image.",
)
@click.option(
    "--top", type=click.IntRange(1), metavar="N", default=3, show_default=True, help="Number of classes per image."
)
@SPREADSHEET_SAFE
@DEVICE
@report_errors()
def predict(model: Path, images: tuple[Path, ...], kind: str, top: int, spreadsheet_safe: bool, device: str) -> None:
    """Classify images: files, folders or standard input.

    IMAGE is a file, a folder, or `-` for standard input: one image, or a list of file names, one per line. Confidence
    is calibrated on held-out images. An image that resembles nothing learned is "none of these"; `upcl info` shows how
    often that is a false alarm. Files that cannot be read are reported, and the exit code is then 1.

    \b
    Examples:
      upcl predict --model birds.upcl photo.jpg holiday/
      upcl predict --model birds.upcl holiday/ --format csv > birds.csv
      find . -name '*.jpg' | upcl predict --model birds.upcl - --format json
    """
    from upcl.model.learner import Learner
    from upcl.model.sources import list_sources

    from .predict_output import write_predictions

    learner = Learner(model, device=device)
    calibration = learner.require_bundle().state.calibration
    results = learner.predictor.predict_files(list_sources(images, sys.stdin.buffer), top=top)
    num_failed = write_predictions(results, kind, stdout_console(), spreadsheet_safe=spreadsheet_safe)
    if kind == "table":
        if calibration.num_images:
            rate = f"{calibration.false_alarm_rate:.1%} of {calibration.num_images} held-out images of known classes"
            click.echo(f'false alarms of "none of these": {rate}', err=True)
        else:
            click.echo('note: no image is held out: confidence is not calibrated, "none of these" disabled', err=True)
    if num_failed:
        sys.exit(1)
