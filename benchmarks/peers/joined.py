"""lakehouse: a stream joined with a table by their key, the last joined record of each key. One argument: the work."""

from __future__ import annotations

from ours import catch_up

import lakehouse as lh

clicks = lh.stream("clicks", key="user string", schema="amount bigint, note string")
users = lh.stream("users", key="user string", schema="city string").latest("users")
app = lh.app(clicks.join(users).latest("joined"))

if __name__ == "__main__":
    # A record finds what the table has when it arrives: the users come first.
    catch_up(lh.app(users), app)
