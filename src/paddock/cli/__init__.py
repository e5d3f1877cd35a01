"""The command line: parse, one call, render. Only this package prints and exits."""


def main() -> int:
    from paddock.cli.main import main as run

    return run()


__all__ = ["main"]
