"""What all commands share: options, what is shown, and how a command ends."""
