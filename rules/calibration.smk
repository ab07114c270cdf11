rule calibration:
    """Check the statistics on simulated hosts: errors, power, coverage and launches used. Needs no GPU."""
    input:
        config="config/calibration.yaml",
        code=sweep_workflow.code("calibration.py"),
    output:
        report="reports/calibration/calibration.md",
        figure="reports/calibration/calibration.png",
        table="reports/calibration/calibration.csv",
    log:
        "reports/calibration/calibration.log",
    conda:
        "../envs/controller.yaml"
    threads: 2
    message:
        "calibration of the statistics, two to three minutes"
    script:
        "../workflow_scripts/calibration.py"
