"""Fill the stores of a new stream with ids that were delivered before it.

So its window does not begin empty. The steps:

    source (files, topic)    batches of ids with the times they were seen, and their partitions
    run_buffer               the ids in sorted runs that fit into memory
    sst_writer               the runs merged into RocksDB's own files, by generation, and a store made from these files

`job` runs the steps and saves its progress after each piece of work, so that an interrupted one can resume.
"""
