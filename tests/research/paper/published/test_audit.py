from __future__ import annotations

from collections import Counter

from upcl.research.paper.published import audit


def test_audit_finds_the_known_inconsistencies() -> None:
    findings = audit()
    assert Counter(finding.kind for finding in findings)["delta"] == 16
    sentences = {f"{finding.kind}: {finding.where}: {finding.what}" for finding in findings}
    assert sentences >= {
        "delta: cifar100 T=5 M=500, upcl: printed -3.91, the columns give -4.51",
        "contradiction: cifar100 T=5 M=2000, wa: a_last 60.57 in the main table, 63.27 in the appendix",
        "contradiction: cifar100 T=10 M=500, upcl: a_last 51.78 in the ablation, 52.31 in the appendix",
        "contradiction: imagenet100 T=20 M=2000, upcl: a_avg 67.50 in the main table, 67.16 in the appendix",
        "contradiction: imagenet100 T=20 M=2000, wa: a_avg 65.35 in the main table, 65.36 in the appendix",
        "copy: cifar100 T=20 M=1000, icarl: a_avg 48.46 is also printed for cifar100 T=20 M=2000",
        "copy: cifar100 T=20 M=2000, upcl: a_avg 67.16 is also printed for imagenet100 T=20 M=2000",
        "best: tinyimagenet T=10 M=2000, upcl: a_avg 47.84, wa has 49.82",
        "protocol: main table: Coil and BiC are quoted from elsewhere, not run",
        "bold: cifar100 T=5 M=2000, upcl: a_last 60.92 is bold, wa has 63.27",
        "text: cifar100 T=5: upcl leads wa in a_avg by 0.97 in the text, by 0.39 in the table",
    }
