"""Asks an object store once whether it keeps conditional PUTs, on which Delta's log relies (`ConditionalPutLogStore`).

A store that ignores the condition overwrites: of two processes that write one version of a table, both believe that
their commit stands, and one of the commits is gone.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping

from lakehouse.errors import ConfigError, StorageError
from lakehouse.lake import store
from lakehouse.lake.layout import Layout

CONTENT = b"lakehouse"


def check_store(lake_path: str, options: Mapping[str, str], *, single_writer: bool) -> None:
    """Raise ConfigError for a lake on a store that does not keep conditional PUTs, unless it has a single writer.

    The store is asked by two writes below control/, at the lake's first start on it; a mark says that it was. A copy of
    the lake in another bucket, or at another endpoint, is asked again.
    """
    if not store.has_objects(lake_path) or single_writer:
        return
    place = f"{options.get('endpoint', '')} {lake_path.removeprefix(store.S3).partition('/')[0]}"
    mark = f"{Layout(lake_path).conditional_put}-{hashlib.sha256(place.encode()).hexdigest()[:16]}"
    try:
        if store.get_object(mark) is not None:
            return
        probe = f"{Layout(lake_path).conditional_put}-{uuid.uuid4().hex}"
        store.put_object(probe, CONTENT, new=True)
        overwrites = store.put_object(probe, CONTENT, new=True)
        store.delete_object(probe)
        if not overwrites:
            store.put_object(mark, CONTENT)
    except StorageError as error:
        raise ConfigError(f"lake {lake_path}: {error}") from None
    if overwrites:
        raise ConfigError(
            f"the store of lake {lake_path} overwrites a file in spite of If-None-Match: *. Expected a store "
            "with conditional PUTs: without them two processes that write one table lose commits. Take another store "
            "(or a newer version of it); or, if nobody else will ever write to this lake, say so: lake.single_writer "
            "= true."
        )
