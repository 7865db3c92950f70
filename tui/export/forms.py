"""The forms that a recording can be written in, by the ending of the file. Light to import."""

from __future__ import annotations

from engine.recording import Recording

FORMS = {
    "html": "One page with coloured rounds; needs no network and no script.",
    "md": "A report in Markdown.",
    "csv": "A line a round, for a spreadsheet.",
    "json": "Everything, for a program.",
    "cast": "The printed replay, for asciinema.",
}


def written(recording: Recording, form: str) -> str:
    """A recording in one of ``FORMS``, as much of it as could be read."""
    if form == "cast":
        from tui.export.cast import as_cast

        return as_cast(recording.header, recording.events)
    from tui.export.report import build_report

    report = build_report(recording.header, recording.events, incomplete=not recording.whole)
    if form == "html":
        from tui.export.html import as_html  # brings a template engine

        return as_html(report)
    if form == "md":
        from tui.export.markdown import as_markdown

        return as_markdown(report)
    from tui.export.tables import as_csv, as_json

    return as_json(report) if form == "json" else as_csv(report)
