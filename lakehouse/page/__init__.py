"""The content of the page "Streams & Tables": read from the lake without Spark, and prepared for JSON.

The page itself, its server and its design, is `plugins/lakehouse_page`; nothing here depends on it.
"""
