"""The HTML pages that jobs and examples write: style, templates and plots."""
