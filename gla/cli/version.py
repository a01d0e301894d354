"""The version of the installed gla, or of the checkout that runs."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    from importlib import metadata

    try:
        return metadata.version("gla")
    except metadata.PackageNotFoundError:
        import tomllib
        from pathlib import Path

        project = Path(__file__).parents[2] / "pyproject.toml"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]) if project.exists() else "unknown"
