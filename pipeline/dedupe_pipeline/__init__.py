"""PySpark readers and jobs on the output topic.

They know only the topics and the format of records, not the worker.
"""
