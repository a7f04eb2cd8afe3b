"""Fills the stores of a new stream with ids delivered in the past, so that its window does not begin empty.

    source (files, topic)    batches of ids with when they were seen and their partitions
    runs                     what was read, sorted in pieces that fit into memory
    tables                   the runs merged into RocksDB's own files, by generation
    install                  the files taken in as a store, under the partition's identity

`job` drives these steps and notes after each piece how far it is, so that an interrupted one goes on.
"""
