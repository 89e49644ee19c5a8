"""Ledgers on Apache BookKeeper: the wire of its bookies, the metadata of its ledgers, and a client of both.

Metadata stay in BookKeeper's own layout, so bookies keep the ledgers and the tools of Java read them. It trusts the
metadata store to compare and set; it trusts a bookie's bytes after it has checked their digest. Authentication of
bookies and TLS are refused, not half done.
"""
