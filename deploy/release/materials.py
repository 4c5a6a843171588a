"""Writes the bill of materials of both programs as CycloneDX JSON: every crate that is built into them, or that builds them.

Usage: materials.py TARGET, in the root of a checkout. Equal sources give equal bytes.
"""

import json
import re
import subprocess
import sys
import tomllib

PROGRAMS = ["escapement-orchestrator", "escapement-worker"]


def reached(packages, nodes):
    """The ids of the packages that the programs need; what only tests need is left out."""
    wanted = [package["id"] for package in packages.values() if package["name"] in PROGRAMS]
    found = set()
    while wanted:
        package_id = wanted.pop()
        if package_id in found:
            continue
        found.add(package_id)
        for dependency in nodes[package_id]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                wanted.append(dependency["pkg"])
    return found


def component(package, checksums):
    """One crate."""
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    listed = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if name in PROGRAMS:
        listed["type"] = "application"
    if package["license"]:
        listed["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    checksum = checksums.get((name, version))
    if checksum:
        listed["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return listed


def main():
    asked = ["cargo", "metadata", "--locked", "--format-version=1", "--filter-platform", sys.argv[1]]
    metadata = json.loads(subprocess.run(asked, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    with open("Cargo.lock", "rb") as file:
        locked = tomllib.load(file)["package"]
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in locked}
    used = [packages[package_id] for package_id in reached(packages, nodes)]
    components = [component(package, checksums) for package in used]
    components.sort(key=lambda listed: listed["bom-ref"])
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}
    json.dump(bill, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
