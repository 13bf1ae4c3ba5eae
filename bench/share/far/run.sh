#!/bin/sh
# Starts and steps of PyTorch over an emulated 30 ms and 10 Gb/s, with and without --far, beside native; two minutes or so.
# Needs floe, floed and floe-worker in PATH, and a Python with PyTorch and torchvision. Writes JSON: run.sh [FILE]
set -eu
here=$(dirname "$(readlink -f "$0")")
out=$(readlink -f "${1:-far.json}")
python=${PYTHON:-python3}
rtt=${RTT:-30ms} bandwidth=${BANDWIDTH:-10Gb/s}
folder=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true; rm -rf "$folder"' EXIT

port=${PORT:-14897}
floed --listen "tcp://127.0.0.1:$port" --token-file "$folder/token" 2>"$folder/floed.log" &
daemon=$!
export FLOE_TOKEN_FILE="$folder/token" FLOE_LOG=warn XDG_CACHE_HOME="$folder/cache" CUBLAS_WORKSPACE_CONFIG=:4096:8
for _ in $(seq 200); do
    [ -s "$folder/token" ] && break
    sleep 0.1
done

"$python" "$here/steps.py" start >/dev/null # files into memory
run() { # NAME [--far] [ARGUMENT…]
    name=$1
    shift
    far=
    [ "${1:-}" != --far ] || { far=--far; shift; }
    floe run --on "tcp://127.0.0.1:$port:0" --rtt "$rtt" --bandwidth "$bandwidth" $far -- \
        "$python" "$here/steps.py" "$@" >"$folder/$name.json" || { echo "$name failed" >&2; cat "$folder/floed.log" >&2; }
}
"$python" "$here/steps.py" >"$folder/native.json"
floe run --on "tcp://127.0.0.1:$port:0" -- "$python" "$here/steps.py" >"$folder/near.json"
run first start
run second start
run away
run far-first --far start
run far-second --far start
run far --far
run far-again --far
"$python" - "$folder" "$out" "$rtt" "$bandwidth" <<'END'
import json, pathlib, sys
folder, out, rtt, bandwidth = sys.argv[1:]
said = {}
for file in sorted(pathlib.Path(folder).glob("*.json")):
    said[file.stem] = json.loads(file.read_text() or "null")
native = said["native"]
for name, run in said.items():
    for part in ("resnet18", "mlp"):
        if run and part in run:
            run[part]["losses_equal"] = run[part].pop("losses") == native[part]["losses"] if name != "native" else True
for part in ("resnet18", "mlp"):
    del native[part]["losses"]
said["link"] = {"rtt": rtt, "bandwidth": bandwidth}
pathlib.Path(out).write_text(json.dumps(said, indent=1) + "\n")
END
cat "$out"
