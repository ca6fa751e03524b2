"""The OpenAPI document: generated, checked in, well-formed."""

from __future__ import annotations

import json
import re
import runpy

import pytest
import yaml  # type: ignore[import-untyped]

from lochan.wire import openapi
from lochan.wire.openapi import build_document, document_text, to_yaml
from lochan.wire.operations import PARAMETERS, WIRE_NAMES
from lochan.wire.operations_v1 import OPERATIONS_V1
from lochan.wire.operations_v2 import OPERATIONS_V2
from tests.architecture.tree import ROOT

OPERATIONS = (*OPERATIONS_V1, *OPERATIONS_V2)


def test_the_checked_in_document_is_the_generated_one():
    checked_in = (ROOT / "openapi.yaml").read_text("utf-8")
    assert checked_in == document_text(), "run: make openapi"


def test_the_text_contains_what_was_built():
    assert yaml.safe_load(document_text()) == json.loads(json.dumps(build_document()))


def test_every_reference_inside_leads_somewhere():
    document = build_document()
    refs = set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document)))
    assert refs
    for ref in refs:
        place = document
        for part in ref.split("/"):
            place = place[part]


def test_nessies_eighteen_operations_are_there():
    assert sum(not each.beyond for each in OPERATIONS_V2) == 18


def test_operations_have_names_of_their_own():
    ids = [each.id for each in OPERATIONS]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.id)
def test_the_values_in_a_path_are_its_path_parameters(operation):
    named = {
        WIRE_NAMES.get(name, name)
        for name in operation.parameters
        if PARAMETERS[name].place == "path"
    }
    assert set(re.findall(r"\{([^}]+)\}", operation.path)) == named


def test_texts_that_look_like_something_else_are_quoted():
    value = {"a": ["no", "1", "a: b", "#x", "", "plain words"], "true": {}, "200": None, "b": []}
    assert yaml.safe_load(to_yaml(value)) == value


def test_the_module_run_as_a_program_prints_the_document(capsys):
    runpy.run_path(openapi.__file__, run_name="__main__")
    assert capsys.readouterr().out == document_text()
