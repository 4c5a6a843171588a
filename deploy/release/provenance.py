"""Writes where the files of a release come from, as an in-toto statement with the predicate of SLSA 1.0.

Usage: provenance.py FOLDER TARGET PROGRAMS, in the root of a checkout; PROGRAMS is `built` or `given`.
Equal sources and equal tools give equal bytes: it names neither a time nor a machine.
"""

import hashlib
import json
import os
import subprocess
import sys


def said(*command):
    """What a program answers."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def digest(path):
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def main():
    folder, target, programs = sys.argv[1:]
    files = sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name)))
    commit = said("git", "rev-parse", "HEAD")
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": digest(os.path.join(folder, name))} for name in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:escapement:deploy/release/build:1",
                "externalParameters": {"target": target, "programs": programs},
                "internalParameters": {"sourceDateEpoch": int(os.environ["SOURCE_DATE_EPOCH"])},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    {"name": "Cargo.lock", "digest": digest("Cargo.lock")},
                    {"name": "deploy/release/build", "digest": digest("deploy/release/build")},
                    {"name": "rustc", "annotations": {"version": said("rustc", "--version", "--verbose").splitlines()}},
                ],
            },
            # Whose word it is says the signature of SHA256SUMS, which has the digest of this file.
            "runDetails": {"builder": {"id": "urn:escapement:signer"}},
        },
    }
    json.dump(statement, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
