"""What the laws say of a method: a table, and for each broken law the numbers and the code."""

import dataclasses
import io
from html import escape
from typing import Any

from fedloom.checking.verdicts import BROKEN, INAPPLICABLE, KEPT, UNCHECKED, Finding
from fedloom.pictures import notebook

_MARKS = {KEPT: "✓", BROKEN: "✗", INAPPLICABLE: "-", UNCHECKED: "·"}
_WIDE = 160


@dataclasses.dataclass(frozen=True, repr=False)
class Report:
    """What `fl.check` found; it shows itself as a table in a terminal and in a notebook."""

    method: str  # as it was tried
    federation: str  # on which clients, in words
    findings: tuple[Finding, ...]  # one for each law

    @property
    def ok(self) -> bool:
        """Whether no law is broken."""
        return not self.broken

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The laws that are broken."""
        return tuple(finding for finding in self.findings if finding.verdict == BROKEN)

    def __getitem__(self, law: str) -> Finding:
        return next(finding for finding in self.findings if finding.law == law)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        findings = [finding.as_dict() for finding in self.findings]
        return {
            "method": self.method,
            "federation": self.federation,
            "ok": self.ok,
            "findings": findings,
        }

    def summary(self) -> str:
        """The outcome in a line."""
        counts = {verdict: 0 for verdict in _MARKS}
        for finding in self.findings:
            counts[finding.verdict] += 1
        parts = [f"{count} {verdict}" for verdict, count in counts.items() if count]
        return f"{self.method}: {', '.join(parts)}"

    def __repr__(self) -> str:
        return f"<Report: {self.summary()}>"

    def __str__(self) -> str:
        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=_WIDE).print(self)
        return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        table = notebook.rich_table(self._rows(), self._caption())
        return Group(table, *(Text(text) for text in map(_told, self.broken)))

    def _repr_html_(self) -> str:
        details = "".join(f"<pre>{escape(_told(finding))}</pre>" for finding in self.broken)
        return notebook.html_table(self._rows(), self._caption()) + details

    def _caption(self) -> str:
        return f"{self.summary()}. Tried on {self.federation}"

    def _rows(self) -> list[dict[str, str]]:
        return [
            {
                "": _MARKS[finding.verdict],
                "law": finding.law,
                "what is promised": finding.title,
                "verdict": finding.verdict,
                "because": finding.reason.split(". ")[0],
            }
            for finding in self.findings
        ]


def _told(finding: Finding) -> str:
    """All that is known of a broken law, for the method's author."""
    lines = [f"✗ {finding.law}: {finding.title}", f"  {finding.reason}"]
    if finding.line:
        lines.append(f"  at {finding.line}")
    if finding.difference is not None:
        lines.append(f"  {finding.difference}")
    lines.append(f"  shown by {finding.example}:")
    lines += [f"    {line}".rstrip() for line in finding.code.splitlines()]
    return "\n" + "\n".join(lines)
