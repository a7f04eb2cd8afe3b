"""Snapshots in a bucket of any service with the S3 API.

Each is a checkpoint of one partition's store.

    <prefix>/<namespace>/<stream>/<partition>/objects/<sha256>        a file's content
    <prefix>/<namespace>/<stream>/<partition>/snapshots/<name>.json   see `manifest.Manifest`

RocksDB never changes a file of ids after it is written, and a content has one name: what two snapshots share is
uploaded and stored once. A snapshot exists when its manifest does, which is written last.
"""
