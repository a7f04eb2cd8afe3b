"""PySpark on the clean topic: reader and jobs; knows only topics and the record format."""
