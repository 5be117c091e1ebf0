"""What a run needs before it starts: the application, Kafka, leases, and a lake that fits both."""
