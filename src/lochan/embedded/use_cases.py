"""Which use case of `service/` runs which request.

A read returns its result; its use case takes the fields of the request by their names. A write
returns its result, or a `PendingWrite` to be published in the lane of its branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import asdict, replace

from lochan.access.policy import Call, OpenPolicy
from lochan.base.errors import TooLarge
from lochan.base.ids import EMPTY_ID
from lochan.base.limits.files import FILE_READ_BYTES_MAX
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.kernel.repository import Ports
from lochan.model import file_requests, requests, store_requests
from lochan.model.commits import Committed
from lochan.model.file_requests import PutFileRequest, ReadFileRequest
from lochan.model.files import FileInfo, pieces_of
from lochan.model.references import Reference
from lochan.model.requests import (
    DEFAULT_BRANCH,
    AssignReferenceRequest,
    BranchRequest,
    CherryPickRequest,
    CommitRequest,
    DeleteReferenceRequest,
    RepositoryRequest,
)
from lochan.model.results import Merged, RepositoryInfo
from lochan.model.specs import ReferenceSpec
from lochan.service.pending_writes import PendingWrite
from lochan.service.repositories import Repositories
from lochan.service.repository import Repository
from lochan.service.stores import StoreControl

_Request = TypeVar("_Request", bound=BranchRequest | CommitRequest)

UseCase = Callable[[Repository, Call, Any], Any]
"""Takes the repository, the caller and a request; returns the result or a pending write."""


def _info(repository: Repository, call: Call) -> RepositoryInfo:
    info = repository.describe(call)
    return RepositoryInfo(
        default_branch=info.default_branch,
        created_us=info.created_us,
        empty_hash=EMPTY_ID.hex(),
        spec_version="",
    )


def _cherry_pick(
    repository: Repository, call: Call, request: CherryPickRequest
) -> PendingWrite[Merged]:
    """Prepares a cherry-pick; the commits of a range are picked from the oldest on."""
    if request.after is not None:
        found = repository.history.between(call, request.after, request.hashes[0])
        hashes = tuple(ReferenceSpec(None, each) for each in found)
        request = replace(request, hashes=hashes, after=None)
    return repository.merges.cherry_pick(call, _expecting(repository, call, request))


def _assign(repository: Repository, call: Call, request: AssignReferenceRequest) -> Reference:
    name, expected = _target(repository, call, request.name, request.expected)
    return repository.references.assign(call, name, expected, request.target, kind=request.kind)


def _delete(repository: Repository, call: Call, request: DeleteReferenceRequest) -> Reference:
    name, expected = _target(repository, call, request.name, request.expected)
    return repository.references.delete(call, name, expected, kind=request.kind)


def _commit(repository: Repository, call: Call, request: CommitRequest) -> PendingWrite[Committed]:
    """Prepares a commit; one of staged files alone expects nothing."""
    if request.operations or not request.staged:
        request = _expecting(repository, call, request)
    return repository.commits.commit(call, **asdict(request))


def _read_file(repository: Repository, call: Call, request: ReadFileRequest) -> bytes:
    with repository.files.open(call, **asdict(request)) as stream:
        size = stream.end - stream.start
        if size > FILE_READ_BYTES_MAX:
            raise TooLarge(
                f"{size} bytes are over the limit of {FILE_READ_BYTES_MAX} for a read into "
                "memory; open the file as a stream, or read ranges of it"
            )
        return stream.read()


def _put_file(repository: Repository, call: Call, request: PutFileRequest) -> FileInfo:
    begin = repository.uploads.begin
    with begin(call, request.branch, request.path, request.properties, request.condition) as upload:
        for piece in pieces_of(request.body):
            upload.write(piece)
        return upload.finish()


def _store(repository: Repository) -> StoreControl:
    context = repository.context
    ports = Ports(context.clock, context.random, context.waiting)
    return StoreControl(Repositories(context.store, ports), OpenPolicy())


def _by_fields_of_store(method: Callable[..., Any]) -> UseCase:
    """Returns a use case of the whole store that takes the fields of a request by their names."""
    return lambda service, call, request: method(_store(service), call, **asdict(request))


def _expecting(repository: Repository, call: Call, request: _Request) -> _Request:
    """Returns a request with the name of its branch and its expected hash."""
    branch, expected = _target(repository, call, request.branch, request.expected)
    return replace(request, branch=branch, expected=expected)


def _target(
    repository: Repository, call: Call, name: str, expected: ReferenceSpec | None
) -> tuple[str, ReferenceSpec]:
    """Returns the name of a reference and the expected hash: by default its present head."""
    if name == DEFAULT_BRANCH:
        name = repository.info.default_branch
    if expected is None:
        expected = ReferenceSpec(None, repository.references.get(call, name).hash)
    return name, expected


def _by_fields(find: Callable[[Repository], Callable[..., Any]]) -> UseCase:
    """Returns a use case that takes the fields of a request by their names."""
    return lambda service, call, request: find(service)(call, **asdict(request))


def _whole(find: Callable[[Repository], Callable[[Call, Any], Any]]) -> UseCase:
    """Returns a use case that takes a request on a branch, with its expected hash, as it is."""
    return lambda service, call, request: find(service)(call, _expecting(service, call, request))


READS: Final[Mapping[type[RepositoryRequest[Any]], UseCase]] = {
    requests.RepositoryInfoRequest: lambda service, call, _: _info(service, call),
    requests.GetReferenceRequest: _by_fields(lambda service: service.references.get),
    requests.ListReferencesRequest: _by_fields(lambda service: service.references.list),
    requests.ReferenceLogRequest: lambda service, call, request: service.references.log(
        call, request.name, request.limit or PAGE_ENTRIES_MAX, request.token
    ),
    requests.RecentChangesRequest: _by_fields(lambda service: service.references.recent_changes),
    requests.ListEntriesRequest: _by_fields(lambda service: service.contents.entries),
    requests.GetContentRequest: _by_fields(lambda service: service.contents.get),
    requests.GetContentsRequest: _by_fields(lambda service: service.contents.get_many),
    requests.FindJobsRequest: lambda service, call, request: (
        service.jobs.find(call, request.spec, request.key, request.jobs).items
    ),
    requests.ListJobsRequest: _by_fields(lambda service: service.jobs.list),
    requests.LogRequest: _by_fields(lambda service: service.history.log),
    requests.DiffRequest: _by_fields(lambda service: service.history.diff),
    requests.GetNamespaceRequest: _by_fields(lambda service: service.namespaces.get),
    requests.ListNamespacesRequest: _by_fields(lambda service: service.namespaces.list),
    requests.GetSettingsRequest: _by_fields(lambda service: service.settings.get),
    store_requests.CountStoreRequest: _by_fields_of_store(StoreControl.count),
    store_requests.ScanStoreRequest: _by_fields_of_store(StoreControl.scan),
    store_requests.WalkStoreRequest: _by_fields_of_store(StoreControl.walk),
    file_requests.StatFileRequest: _by_fields(lambda service: service.files.stat),
    file_requests.ReadFileRequest: _read_file,
    file_requests.OpenFileRequest: _by_fields(lambda service: service.files.open),
    file_requests.PresignFileRequest: _by_fields(lambda service: service.files.presign),
    file_requests.ListFilesRequest: _by_fields(lambda service: service.file_listings.list),
    file_requests.UncommittedFilesRequest: _by_fields(
        lambda service: service.file_listings.uncommitted
    ),
    file_requests.DiffFilesRequest: _by_fields(lambda service: service.file_history.diff),
    file_requests.FileLogRequest: _by_fields(lambda service: service.file_history.log),
}

WRITES: Final[Mapping[type[RepositoryRequest[Any]], UseCase]] = {
    requests.NewReference: lambda service, call, new: service.references.create(call, new),
    requests.NewReferencesRequest: lambda service, call, request: service.references.create_many(
        call, request.new
    ),
    requests.AssignReferenceRequest: _assign,
    requests.DeleteReferenceRequest: _delete,
    requests.CommitRequest: _commit,
    requests.MergeRequest: _whole(lambda service: service.merges.merge),
    requests.TransplantRequest: _whole(lambda service: service.merges.transplant),
    requests.CherryPickRequest: _cherry_pick,
    requests.RevertRequest: _whole(lambda service: service.merges.revert),
    requests.RebaseRequest: _whole(lambda service: service.merges.rebase),
    requests.FastForwardRequest: _whole(lambda service: service.merges.fast_forward),
    requests.ForceRequest: _whole(lambda service: service.merges.force),
    requests.CreateNamespaceRequest: lambda service, call, request: service.namespaces.create(
        call, request.branch, None, request.namespace
    ),
    requests.DeleteNamespaceRequest: lambda service, call, request: service.namespaces.delete(
        call, request.branch, None, request.elements
    ),
    requests.UpdateNamespaceRequest: lambda service, call, request: service.namespaces.update(
        call, request.branch, None, request.elements, request.updates, request.removals
    ),
    requests.UpdateSettingsRequest: _by_fields(lambda service: service.settings.update),
    store_requests.EraseRepositoryRequest: _by_fields_of_store(StoreControl.erase),
    file_requests.PutFileRequest: _put_file,
    file_requests.CopyFileRequest: _by_fields(lambda service: service.files.copy),
    file_requests.UpdateFileRequest: _by_fields(lambda service: service.files.update),
    file_requests.DeleteFileRequest: _by_fields(lambda service: service.files.delete),
    file_requests.DeleteFilesRequest: _by_fields(lambda service: service.files.delete_many),
    file_requests.ResetFilesRequest: _by_fields(lambda service: service.resets.reset),
    file_requests.HardResetRequest: _by_fields(lambda service: service.resets.hard_reset),
    file_requests.ReserveAddressRequest: _by_fields(lambda service: service.addresses.reserve),
    file_requests.LinkAddressRequest: _by_fields(lambda service: service.addresses.link),
    file_requests.ImportFilesRequest: _by_fields(lambda service: service.imports.import_files),
}
