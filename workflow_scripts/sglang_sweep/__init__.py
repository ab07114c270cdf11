"""The library behind the workflow: plain functions and dataclasses, no Snakemake and no SGLang imports."""
