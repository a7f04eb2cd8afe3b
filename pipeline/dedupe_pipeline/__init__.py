"""PySpark readers and jobs on the clean topic.

They know only the topics and the format of records, not the worker.
"""
