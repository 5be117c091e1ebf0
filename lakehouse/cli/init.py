def init() -> None:
    """x"""
