#!/usr/bin/env python3
"""Writes the bill of materials of a release, SPDX 2.3 as JSON: the artifacts with their digests, and the libraries that
are compiled into them or lie beside them, with the versions of this machine.

    make_sbom.py VERSION COMMIT ARTIFACT ... > libmeg-VERSION.spdx.json

Time and names come from the arguments and SOURCE_DATE_EPOCH, so that the same release gives the same bytes.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
NAMESPACE = "urn:libmeg:spdx"


def library_packages():
    """The Debian packages of libraries that building needs, as scripts/apt-build.txt lists them."""
    for line in (HERE / "apt-build.txt").read_text(encoding="utf-8").splitlines():
        name = line.partition("#")[0].strip()
        if name.endswith("-dev"):
            yield name


def version_of(package):
    shown = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    if shown.returncode != 0:
        sys.exit(f"error: {package}: not installed: run scripts/setup.sh")
    return shown.stdout


def spdx_id(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package(name, version, **fields):
    return {
        "SPDXID": spdx_id(name),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "copyrightText": "NOASSERTION",
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        **fields,
    }


def artifact(path, version):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return package(
        path.name,
        version,
        packageFileName=path.name,
        checksums=[{"algorithm": "SHA256", "checksumValue": digest}],
        licenseConcluded="Apache-2.0",
        licenseDeclared="Apache-2.0",
    )


def library(name):
    version = version_of(name)
    reference = {
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": f"pkg:deb/debian/{name}@{version}",
    }
    return package(name, version, externalRefs=[reference])


def main():
    version, commit, *paths = sys.argv[1:]
    artifacts = [artifact(pathlib.Path(path), version) for path in sorted(paths)]
    libraries = [library(name) for name in library_packages()]
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    relationships = [("SPDXRef-DOCUMENT", "DESCRIBES", made["SPDXID"]) for made in artifacts]
    relationships += [
        (made["SPDXID"], "DEPENDS_ON", needed["SPDXID"]) for made in artifacts for needed in libraries
    ]
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"libmeg-{version}",
        "documentNamespace": f"{NAMESPACE}:{version}:{commit}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: make_sbom.py"]},
        "packages": artifacts + libraries,
        "relationships": [
            {"spdxElementId": subject, "relationshipType": kind, "relatedSpdxElement": object}
            for subject, kind, object in relationships
        ],
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
