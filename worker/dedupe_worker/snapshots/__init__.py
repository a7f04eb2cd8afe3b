"""Snapshots in a bucket of any service that speaks S3, each of them one checkpoint of one partition's store.

    <prefix>/<namespace>/<stream>/<partition>/objects/<sha256>        a file's content
    <prefix>/<namespace>/<stream>/<partition>/snapshots/<name>.json   see `manifest.Manifest`

RocksDB never changes a file of ids once it is written, and a content has one name here: what two snapshots share is
uploaded and kept once. A snapshot is there when its manifest is, which is written last.
"""
