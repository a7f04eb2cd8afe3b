"""A store of fixed size in memory: the opposite of a Bloom filter.

A Bloom filter has false positives. This table has only false negatives: it may have forgotten an id, and never reports
a new id as known. So no message is lost, and a duplicate may pass. Source: Jeff Hodges, "The Opposite of a
Bloom Filter" (2012), as used for nsq's de-duplication.

    sizing       number of slots, and the share of ids they retain
    capacity     check that a table fits into memory and volume
    table        the slots in memory
    retention    the window of a table
    segments     the table on disk
    table_state  a table with its metadata and its segments
    flush        when segments are written
    store        all of it as a worker's store
"""
