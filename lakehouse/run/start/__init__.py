"""The needs of a run before it starts: the application, Kafka, leases, and a lake that fits both."""
