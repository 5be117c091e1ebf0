"""Settings: `lakehouse.toml` and the environment, as frozen values."""
