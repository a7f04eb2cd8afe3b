"""A PostgreSQL for tests, and the expected result of job `aggregate`."""
