"""Packs an installation as a Python wheel: `pip install` then brings the commands `floe` and `floed`.

In: the installation's folder, where the wheel goes, floe's version, the glibc that its programs need, the licences.
Out: the wheel's path on stdout. Two wheels of one installation are equal byte for byte.
Format: PEP 427, PEP 600; https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

MODULE = '''"""GPUs that float over a cluster: the commands `floe` and `floed`, with the libraries that programs get from them."""

import os
import sys
from pathlib import Path

__version__ = "{version}"

#: The folder of floe's programs and libraries.
INSTALLATION = Path(__file__).resolve().parent / "installation"


def _become(program):
    path = INSTALLATION / "bin" / program
    os.execv(path, [str(path), *sys.argv[1:]])


def floe():
    """Becomes the command `floe`."""
    _become("floe")


def floed():
    """Becomes the server `floed`."""
    _become("floed")
'''

MAIN = "from floe import floe\n\nfloe()\n"

METADATA = """Metadata-Version: 2.1
Name: floe
Version: {version}
Summary: GPUs that float over a cluster
License: Apache-2.0 OR MIT
Requires-Python: >=3.8
Classifier: Operating System :: POSIX :: Linux
Classifier: Environment :: GPU :: NVIDIA CUDA
Description-Content-Type: text/markdown

A CUDA program, unmodified, uses GPUs of other machines as if they were its own:

    floe run --on gpu-server:0 -- python train.py
"""

WHEEL = """Wheel-Version: 1.0
Generator: floe
Root-Is-Purelib: false
Tag: {tag}
"""

ENTRIES = "[console_scripts]\nfloe = floe:floe\nfloed = floe:floed\n"

FILE = 0o100644
PROGRAM = 0o100755


def contents(installation, version, tag, licences):
    """Names in the wheel with their bytes and modes, in order."""
    information = f"floe-{version}.dist-info"
    yield "floe/__init__.py", MODULE.replace("{version}", version).encode(), FILE
    yield "floe/__main__.py", MAIN.encode(), FILE
    for folder in ("bin", "lib"):
        for path in sorted((installation / folder).rglob("*")):
            # A wheel has no links: what has two names is there twice.
            if path.is_file():
                mode = PROGRAM if folder == "bin" else FILE
                yield f"floe/installation/{path.relative_to(installation)}", path.read_bytes(), mode
    yield f"{information}/METADATA", METADATA.format(version=version).encode(), FILE
    yield f"{information}/WHEEL", WHEEL.format(tag=tag).encode(), FILE
    yield f"{information}/entry_points.txt", ENTRIES.encode(), FILE
    for licence in licences:
        yield f"{information}/licenses/{licence.name}", licence.read_bytes(), FILE


def pack(installation, folder, version, glibc, licences):
    """Writes the wheel and returns its path."""
    major, minor = glibc.split(".")[:2]
    tag = f"py3-none-manylinux_{major}_{minor}_x86_64"
    path = folder / f"floe-{version}-{tag}.whl"
    rows = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as wheel:

        def add(name, data, mode):
            # The first time that the format knows.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)

        for name, data, mode in contents(installation, version, tag, licences):
            add(name, data, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}\n")
        record = f"floe-{version}.dist-info/RECORD"
        add(record, ("".join(rows) + f"{record},,\n").encode(), FILE)
    return path


if __name__ == "__main__":
    installation, folder, version, glibc, *licences = sys.argv[1:]
    print(pack(Path(installation), Path(folder), version, glibc, [Path(licence) for licence in licences]))
