#!/bin/sh
# torch.profiler on this machine's GPU, natively and through floe (Unix socket, TCP), in less than a minute.
# Needs floe, floed and floe-worker in PATH, and a Python with PyTorch for CUDA 13. Writes JSON: run.sh [FILE]
set -eu
here=$(dirname "$(readlink -f "$0")")
out=$(readlink -f "${1:-profile.json}")
python=${PYTHON:-python3}
folder=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true; rm -rf "$folder"' EXIT

find_cupti='import glob, os, torch
print(sorted(glob.glob(os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), "nvidia", "**", "libcupti.so.1[23]"), recursive=True))[-1])'
cupti=${CUPTI:-$("$python" -c "$find_cupti")}

"$python" "$here/train.py" "$folder/native.json"

port=${PORT:-14899}
floed --socket "$folder/floed.sock" --listen "tcp://127.0.0.1:$port" --token-file "$folder/token" \
    --module-cache-limit 0 --cupti "$cupti" 2>"$folder/floed.log" &
daemon=$!
for _ in $(seq 200); do
    [ -S "$folder/floed.sock" ] && break
    sleep 0.1
done
export FLOE_TOKEN_FILE="$folder/token" FLOE_LOG=warn
for way in unix tcp; do
    case $way in
        unix) place="unix://$folder/floed.sock:0" ;;
        tcp) place="tcp://127.0.0.1:$port:0" ;;
    esac
    floe run --on "$place" -- "$python" "$here/train.py" "$folder/$way.json" || cat "$folder/floed.log" >&2
done
"$python" "$here/compare.py" "$folder/native.json" "$folder/unix.json" "$folder/tcp.json" "$out"
echo "written: $out"
