"""What outsiders meet first: hosted checks, forms for issues, licences of the images."""

import re
from pathlib import Path

import pytest
import yaml

from scripts.licenses import IMAGES, pinned
from tests.architecture.command_line import ROOT, run

GITHUB = ROOT / ".github"
WORKFLOW = GITHUB / "workflows" / "ci.yml"
FORMS = sorted(GITHUB.glob("ISSUE_TEMPLATE/*.yml"))


@pytest.mark.heavy
def test_the_hosted_workflow_keeps_to_its_schema() -> None:
    schema = "vendor.github-workflows"
    answer = run("check-jsonschema", "--builtin-schema", schema, str(WORKFLOW))
    assert answer.returncode == 0, answer.stdout


def test_the_hosted_workflow_runs_the_targets_of_ci_run() -> None:
    ran = re.findall(r"^make ([\w-]+)", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE)
    (job,) = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"].values()
    assert job["strategy"]["matrix"]["target"] == ran
    assert "make ${{ matrix.target }}" in [step.get("run") for step in job["steps"]]


@pytest.mark.heavy
@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_keeps_to_its_schema(form: Path) -> None:
    kind = "config" if form.stem == "config" else "forms"
    answer = run("check-jsonschema", "--builtin-schema", f"vendor.github-issue-{kind}", str(form))
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
