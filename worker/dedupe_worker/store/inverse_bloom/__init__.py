"""A store of fixed size in memory: the opposite of a Bloom filter.

A Bloom filter may say that it knows what it never saw. This table may have forgotten what it saw, and never says that
it knows what is new: a message is never lost to it, and a duplicate may pass. Source: Jeff Hodges, "The Opposite of a
Bloom Filter" (2012), as used for nsq's de-duplication.

    sizing    how many slots, and how much they retain
    table     the slots in memory
    history   how far back the table remembers
    files     the table on disk
    disk      when it gets there
    store     all of it as a worker's store
"""
