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
    """Write a campaign's report: findings.md, index.html (the same, one file), figures and tables."""
    input:
        verdicts="results/{campaign}/verdicts.json",
        declaration="results/{campaign}/declaration.json",
        beside="results/{campaign}/report.json",
        launches=lambda w: SWEEPS.launches(w.campaign),
        communication=lambda w: SWEEPS.communication(w.campaign),
        templates=collect(
            "reports/templates/{name}",
            name=["index.html.j2", "page.css", "page.js", "terms.yaml"],
        ),
        code=sweep_workflow.code("documents.py"),
    output:
        page=report(
            "reports/{campaign}/index.html",
            caption="../reports/captions/page.rst",
            category="{campaign}",
            labels={"what": "report"},
        ),
        findings="reports/{campaign}/findings.md",
        ratios=report(
            "reports/{campaign}/ratios.svg",
            caption="../reports/captions/ratios.rst",
            category="{campaign}",
            labels={"what": "change against the baseline"},
        ),
        blocks="reports/{campaign}/blocks.svg",
        windows="reports/{campaign}/windows.svg",
        verdicts=report(
            "reports/{campaign}/verdicts.csv",
            caption="../reports/captions/verdicts.rst",
            category="{campaign}",
            labels={"what": "verdicts"},
        ),
        metrics="reports/{campaign}/metrics.csv",
        launches="reports/{campaign}/launches.csv",
        columns="reports/{campaign}/columns.md",
    log:
        "results/{campaign}/logs/documents.log",
    conda:
        "../envs/controller.yaml"
    message:
        "{wildcards.campaign}: report"
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
