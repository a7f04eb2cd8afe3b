"""Results as JSON, pages and plots."""
