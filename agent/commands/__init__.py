"""The commands of the command line, one file each. In: parsed arguments. Out: an exit code.

A command's file has two functions, and imports what it needs inside the second, so that no command pays for another:

    def configure(parser: argparse.ArgumentParser) -> None     # its arguments
    def main(args: argparse.Namespace) -> int                  # does it; PdwatchError ends it with one line

Its name and its line of help stand in `agent/cli.py`. Product goes to stdout, logs go to stderr.
"""
