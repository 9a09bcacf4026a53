"""What outsiders meet first: hosted checks, forms for issues, a compose file, and licences."""

import re
from pathlib import Path

import pytest
import yaml

from scripts.licenses import IMAGES, pinned
from tests.architecture.command_line import ROOT, run

GITHUB = ROOT / ".github"
WORKFLOW = GITHUB / "workflows" / "ci.yml"


def test_the_hosted_workflow_runs_the_targets_of_ci_run() -> None:
    ran = re.findall(r"^make ([\w-]+)", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE)
    (job,) = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"].values()
    assert job["strategy"]["matrix"]["target"] == ran
    assert "make ${{ matrix.target }}" in [step.get("run") for step in job["steps"]]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("compose-spec", ROOT / "docker/compose.yaml"),
        ("github-workflows", WORKFLOW),
        *(
            ("github-issue-config" if form.stem == "config" else "github-issue-forms", form)
            for form in sorted(GITHUB.glob("ISSUE_TEMPLATE/*.yml"))
        ),
    ],
    ids=lambda it: it.stem if isinstance(it, Path) else "",
)
def test_a_file_keeps_to_its_schema(schema: str, file: Path) -> None:
    answer = run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", str(file))
    assert answer.returncode == 0, answer.stdout


def test_the_list_of_licences_has_the_packages_of_the_images() -> None:
    page = (ROOT / "docker" / "LICENSES.md").read_text("utf-8")
    rows = re.findall(r"^\| ([\w.-]+) \| (\S+) \| .+ \| ([\w, ]+) \|$", page, re.MULTILINE)
    listed = {
        image: {name: version for name, version, images in rows if image in images.split(", ")}
        for image in IMAGES
    }
    wanted = {image: pinned(image) for image in IMAGES}
    for lock in wanted.values():
        lock.pop("colorama", None)
    assert listed == wanted
