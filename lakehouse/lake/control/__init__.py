"""The small files below control/: leases, and what a writer notes for its next start."""
