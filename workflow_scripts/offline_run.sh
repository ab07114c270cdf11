#!/usr/bin/env bash
# On a host without network that is lent for some time: installs the bundle once, measures, packs what is there.
#
#   bash workflow_scripts/offline_run.sh BUNDLE CAMPAIGN SECONDS OUT [further arguments of snakemake]
#
# BUNDLE is the carried folder with install_bundle.py; OUT receives results.tar.xz and traces.tar.xz. Ends with 0 when
# the campaign is finished and 124 when the time was: call it again and it goes on. SWEEP_HOME names where the bundle
# is installed; PYTHON the interpreter that the bundle counts on.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
bundle=$(realpath "$1") campaign=$2 seconds=$3 out=$(realpath -m "$4")
shift 4
cd "$(dirname "$0")/.."
home=${SWEEP_HOME:-$HOME/sglang-bundle}
if [ ! -x "$home/controller/bin/python" ]; then
    "${PYTHON:-python3}" "$bundle/install_bundle.py" --into "$home"
    # Else the first servers compile what they import. Not every file of every package is valid for this Python.
    "$home/controller/bin/python" -m compileall -q -j 0 "$home" > /dev/null 2>&1 || true
fi
export PATH="$home/controller/bin:$PATH" PYTHONPATH="$PWD/workflow_scripts"
status=0
# INT, as Ctrl-C: the running server is ended and the next call finds everything in order. A shell in the background
# ignores it, and its children would too.
timeout --signal INT --kill-after 60 "$seconds" \
    env --default-signal=INT snakemake --cores all --config "campaigns=[\"$campaign\"]" "$@" || status=$?
mkdir -p "$out" results
reports=$(find reports -maxdepth 1 -name "$campaign")
tar -cJf "$out/results.tar.xz" --exclude traces results $reports
find results -path '*/traces/*' -type f -print0 | tar -cJf "$out/traces.tar.xz" --null --files-from -
exit "$status"
