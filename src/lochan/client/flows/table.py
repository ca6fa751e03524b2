"""Which flow carries which request over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from lochan.client.flows import changes, contents, history, namespaces, references, settings
from lochan.client.messages import Flow
from lochan.model import requests
from lochan.model.requests import RepositoryRequest

_Result = TypeVar("_Result")

FLOWS: Final[Mapping[type[RepositoryRequest[Any]], Callable[[Any], Flow[Any]]]] = {
    requests.RepositoryInfoRequest: settings.info,
    requests.GetReferenceRequest: references.get,
    requests.ListReferencesRequest: references.list_page,
    requests.NewReference: references.create,
    requests.NewReferencesRequest: references.create_many,
    requests.AssignReferenceRequest: references.assign,
    requests.DeleteReferenceRequest: references.delete,
    requests.ReferenceLogRequest: references.log,
    requests.RecentChangesRequest: references.recent_changes,
    requests.ListEntriesRequest: contents.entries,
    requests.GetContentRequest: contents.get,
    requests.GetContentsRequest: contents.get_many,
    requests.FindJobsRequest: contents.find_jobs,
    requests.ListJobsRequest: contents.list_jobs,
    requests.LogRequest: history.log,
    requests.DiffRequest: history.diff,
    requests.CommitRequest: changes.commit,
    requests.MergeRequest: changes.merge,
    requests.TransplantRequest: changes.transplant,
    requests.CherryPickRequest: changes.cherry_pick,
    requests.RevertRequest: changes.revert,
    requests.RebaseRequest: changes.rebase,
    requests.FastForwardRequest: changes.fast_forward,
    requests.ForceRequest: changes.force,
    requests.GetNamespaceRequest: namespaces.get,
    requests.ListNamespacesRequest: namespaces.list_all,
    requests.CreateNamespaceRequest: namespaces.create,
    requests.DeleteNamespaceRequest: namespaces.delete,
    requests.UpdateNamespaceRequest: namespaces.update,
    requests.GetSettingsRequest: settings.get,
    requests.UpdateSettingsRequest: settings.update,
}


def flow_of(request: RepositoryRequest[_Result]) -> Flow[_Result]:
    """Returns the flow that carries a request; a test holds the table to the results' types."""
    return cast("Flow[_Result]", FLOWS[type(request)](request))
