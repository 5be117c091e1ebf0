"""The lineage of an application: which topics, streams and tables each is made from; drawn as text and as a picture."""
