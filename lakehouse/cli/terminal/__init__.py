"""The common parts of all commands: options, output, and the end of a command."""
