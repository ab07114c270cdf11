rule figures:
    """Draw the ratio of each variant with its interval, and the launches over time."""
    input:
        verdicts="results/{campaign}/verdicts.json",
        launches=lambda w: SWEEPS.launches(w.campaign),
        code=sweep_workflow.code("figures.py"),
    output:
        ratios=report(
            "reports/{campaign}/ratios.svg",
            caption="../reports/captions/ratios.rst",
            category="{campaign}",
            labels={"what": "change against the baseline"},
        ),
        blocks=report(
            "reports/{campaign}/blocks.svg",
            caption="../reports/captions/blocks.rst",
            category="{campaign}",
            labels={"what": "launches over time"},
        ),
        windows=report(
            "reports/{campaign}/windows.svg",
            caption="../reports/captions/windows.rst",
            category="{campaign}",
            labels={"what": "windows within launches"},
        ),
    log:
        "results/{campaign}/logs/figures.log",
    conda:
        "../envs/controller.yaml"
    message:
        "{wildcards.campaign}: figures"
    script:
        "../workflow_scripts/figures.py"


rule tables:
    """Write verdicts and launches as CSV."""
    input:
        verdicts="results/{campaign}/verdicts.json",
        code=sweep_workflow.code("tables.py"),
    output:
        verdicts=report(
            "reports/{campaign}/verdicts.csv",
            caption="../reports/captions/verdicts.rst",
            category="{campaign}",
            labels={"what": "verdicts"},
        ),
        launches=report(
            "reports/{campaign}/launches.csv",
            caption="../reports/captions/launches.rst",
            category="{campaign}",
            labels={"what": "launches"},
        ),
    log:
        "results/{campaign}/logs/tables.log",
    conda:
        "../envs/controller.yaml"
    message:
        "{wildcards.campaign}: tables"
    script:
        "../workflow_scripts/tables.py"


rule gather:
    """Collect what the report shows beside the verdicts: profiles, economics, collectives, gate, predictions."""
    input:
        verdicts="results/{campaign}/verdicts.json",
        launches=lambda w: SWEEPS.launches(w.campaign),
        profiles=lambda w: SWEEPS.profiles(w.campaign),
        communication=lambda w: SWEEPS.communication(w.campaign),
        knowledge=collect("config/knowledge/{name}.yaml", name=sweep_workflow.KNOWLEDGE),
        code=sweep_workflow.code("gather.py"),
    output:
        "results/{campaign}/report.json",
    log:
        "results/{campaign}/logs/gather.log",
    conda:
        "../envs/controller.yaml"
    params:
        declared=lambda w: SWEEPS.declared(w.campaign),
        notes=lambda w: SWEEPS.sweep(w.campaign).campaign.notes,
    message:
        "{wildcards.campaign}: profiles, economics and predictions for the report"
    script:
        "../workflow_scripts/gather.py"


rule documents:
    """Write findings.md, the living plan document, and index.html, the same with figures inside."""
    input:
        verdicts="results/{campaign}/verdicts.json",
        beside="results/{campaign}/report.json",
        communication=lambda w: SWEEPS.communication(w.campaign),
        figures=[
            "reports/{campaign}/ratios.svg",
            "reports/{campaign}/blocks.svg",
            "reports/{campaign}/windows.svg",
        ],
        tables=["reports/{campaign}/verdicts.csv", "reports/{campaign}/launches.csv"],
        templates=collect(
            "reports/templates/{name}",
            name=["findings.md.j2", "index.html.j2", "page.css"],
        ),
        code=sweep_workflow.code("documents.py"),
    output:
        findings=report(
            "reports/{campaign}/findings.md",
            caption="../reports/captions/findings.rst",
            category="{campaign}",
            labels={"what": "findings"},
        ),
        page=report(
            "reports/{campaign}/index.html",
            caption="../reports/captions/page.rst",
            category="{campaign}",
            labels={"what": "page"},
        ),
    log:
        "results/{campaign}/logs/documents.log",
    conda:
        "../envs/controller.yaml"
    message:
        "{wildcards.campaign}: findings.md and index.html"
    script:
        "../workflow_scripts/documents.py"


rule compare_stacks:
    """Compare two campaigns, each on a stack of its own, finding by finding."""
    input:
        a="results/{a}/verdicts.json",
        b="results/{b}/verdicts.json",
        code=sweep_workflow.code("compare_stacks.py"),
    output:
        report(
            "reports/stacks/{a}--{b}.md",
            caption="../reports/captions/stacks.rst",
            category="stacks",
            labels={"what": "{a} to {b}"},
        ),
    log:
        "results/{b}/logs/compare-with-{a}.log",
    wildcard_constraints:
        a="[a-z0-9](-?[a-z0-9])*",
        b="[a-z0-9](-?[a-z0-9])*",
    conda:
        "../envs/controller.yaml"
    message:
        "{wildcards.a} against {wildcards.b}, finding by finding"
    script:
        "../workflow_scripts/compare_stacks.py"
