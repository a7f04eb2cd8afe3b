"""The Jinja environment of HTML pages.

The audit's report and the examples use it. The plots are in another module, because Matplotlib is slow to import.
"""

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined


def templates(loader: BaseLoader) -> Environment:
    """Return a Jinja environment with `loader`'s templates, which include `page.css`."""
    return Environment(
        loader=ChoiceLoader([loader, PackageLoader("dedupe_pipeline.pages", ".")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=False,
    )
