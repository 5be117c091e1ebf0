"""The lineage of an application: the topics, streams and tables behind each result, as text and as a picture."""
