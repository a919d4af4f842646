"""The metadata of a release: codemeta.json and ro-crate-metadata.json, by hand.

Both are plain JSON-LD, made of CITATION.cff, the archive's hardware.json and the files themselves:
a library would bring a dozen packages, and the date of the day on which it was called.
CodeMeta 3.0 (https://codemeta.github.io) and RO-Crate 1.1 (https://w3id.org/ro/crate/1.1).
"""

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

Json = dict[str, Any]
LICENSES = "https://spdx.org/licenses/"
CRATE = "ro-crate-metadata.json"
WORKFLOW = "workflow/Snakefile"
# RO-Crate 1.1 has no word for a checksum; Workflow Run RO-Crate has.
SHA256 = "https://w3id.org/ro/terms/workflow-run#sha256"
SNAKEMAKE = "https://w3id.org/workflowhub/workflow-ro-crate#snakemake"
# Python's own table differs from version to version, and a release shall not.
TYPES = {
    "csv": "text/csv", "gz": "application/gzip", "html": "text/html", "json": "application/json",
    "md": "text/markdown", "pdf": "application/pdf", "png": "image/png", "py": "text/x-python",
    "svg": "image/svg+xml", "toml": "application/toml", "tsv": "text/tab-separated-values",
    "xml": "application/xml", "yaml": "application/yaml", "yml": "application/yaml",
}  # fmt: skip


def codemeta(citation: Mapping[str, Any], commit: str, published: str) -> Json:
    """codemeta.json; ``citation`` is CITATION.cff, ``published`` the commit's date as ISO 8601."""
    return {
        "@context": "https://w3id.org/codemeta/3.0",
        "@type": "SoftwareSourceCode",
        "name": citation["title"],
        "description": _text(citation["abstract"]),
        "version": str(citation["version"]),
        "identifier": commit,
        "license": LICENSES + citation["license"],
        "author": [_author(author) for author in citation["authors"]],
        "keywords": citation["keywords"],
        "datePublished": published[:10],
        "programmingLanguage": ["Python", "CUDA C++", "Triton", "Snakemake"],
        "operatingSystem": "Linux",
        "runtimePlatform": "Python 3.11 or 3.12",
    }


def crate(
    citation: Mapping[str, Any],
    hardware: Mapping[str, Any],
    commit: str,
    published: str,
    files: Mapping[str, bytes],
) -> Json:
    """ro-crate-metadata.json of ``files`` (path to content), measured on ``hardware``."""
    authors = [{"@id": f"#author-{i}"} for i in range(len(citation["authors"]))]
    license_id = LICENSES + citation["license"]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{citation['title']} {citation['version']}",
        "description": _text(citation["abstract"]),
        "identifier": commit,
        "datePublished": published,
        "license": {"@id": license_id},
        "author": authors,
        "keywords": ", ".join(citation["keywords"]),
        "hasPart": [{"@id": quote(name)} for name in sorted(files)],
        "mainEntity": {"@id": WORKFLOW},
        "mentions": [{"@id": "#measurement"}],
    }
    return {
        "@context": ["https://w3id.org/ro/crate/1.1/context", {"sha256": SHA256}],
        "@graph": [
            {
                "@id": CRATE,
                "@type": "CreativeWork",
                "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
                "about": {"@id": "./"},
            },
            root,
            {"@id": license_id, "@type": "CreativeWork", "name": citation["license"]},
            *({"@id": f"#author-{i}", **_author(a)} for i, a in enumerate(citation["authors"])),
            *_measurement(hardware),
            {
                "@id": SNAKEMAKE,
                "@type": "ComputerLanguage",
                "name": "Snakemake",
                "url": {"@id": "https://snakemake.readthedocs.io"},
            },
            *(_file(name, content) for name, content in sorted(files.items())),
        ],
    }


def _measurement(hardware: Mapping[str, Any]) -> list[Json]:
    """The run that made the recorded data, and what it ran on."""
    facts = {
        "driver": hardware["driver"],
        "VBIOS": hardware["vbios"],
        "memory in bytes": hardware["memory_bytes"],
        "power limit in watts": hardware["power_limit_w"],
        "multiprocessors": hardware["multiprocessors"],
    }
    named = [(key, value) for key, value in facts.items() if value is not None]
    properties = [{"@id": f"#gpu-{key.replace(' ', '-')}"} for key, _ in named]
    return [
        {
            "@id": "#measurement",
            "@type": "CreateAction",
            "name": f"full run on an {hardware['gpu']}",
            "endTime": hardware["measured_utc"],
            "description": f"measured with code of commit {hardware['code_commit']}",
            "instrument": [{"@id": WORKFLOW}, {"@id": "#gpu"}],
        },
        {
            "@id": "#gpu",
            "@type": "IndividualProduct",
            "name": hardware["gpu"],
            "additionalProperty": properties,
        },
        *(
            {**identity, "@type": "PropertyValue", "name": key, "value": value}
            for identity, (key, value) in zip(properties, named, strict=True)
        ),
    ]


def _file(name: str, content: bytes) -> Json:
    unknown = "application/octet-stream" if b"\0" in content else "text/plain"
    entity: Json = {
        "@id": quote(name),
        "@type": "File",
        "name": name.rsplit("/", 1)[-1],
        "contentSize": str(len(content)),
        "encodingFormat": TYPES.get(name.rsplit(".", 1)[-1], unknown),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    if name == WORKFLOW:
        entity["@type"] = ["File", "SoftwareSourceCode", "ComputationalWorkflow"]
        entity["programmingLanguage"] = {"@id": SNAKEMAKE}
    return entity


def _author(author: Mapping[str, Any]) -> Json:
    """A person by both names, or an organisation or group by its one name."""
    if "name" in author:
        return {"@type": "Organization", "name": author["name"]}
    names = (author.get("given-names"), author.get("family-names"))
    return {"@type": "Person", "name": " ".join(filter(None, names))}


def _text(folded: str) -> str:
    return " ".join(folded.split())
