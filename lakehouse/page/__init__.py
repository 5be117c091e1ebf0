"""What the page "Streams & Tables" shows: read from the lake without Spark, and made ready for JSON.

The page itself, its server and its looks, is `plugins/lakehouse_page`; nothing here knows of it.
"""
