"""Partial aggregates for windowed queries: pure functions over buckets and Arrow data.

    choice.slice_stores(queries)                    which slice stores there are, and what each query reads of them
    partials.partial_aggregates(store, rows, tau)   gather: rows of a source -> rows of a slice store (a Bucket)
    combined.combined_buckets(store, buckets, …)    merge: rows with equal slice and key become one
    slice_cache.SliceCache(store, longest)          a worker keeps one for each store; `advance` appends final slices
    readers.READERS                                 by form, how windows are read from caches, also in pieces of keys
    answers.answers(due, caches)                    the results of all due windows of many queries, in one call

A bucket of a slice store has the start of the slice as event time and the columns of `SliceStore.schema`. Slices end at
multiples of `SliceStore.width`. A window may be read when the watermark has passed its end, because from then on its
slices do not change any more.

Keys of several partitions are disjoint if rows are placed by all keys (without keys: all in one partition). The answers
of the partitions are then the results, except for queries whose last step needs all keys (`Final.needs_all_keys`).
"""
