"""Opens the database files without losing what a damaged log still contains."""

from __future__ import annotations

from rocksdict import AccessType, Options, Rdict

from lochan.base.errors import LochanError
from lochan.stores.rocksdb.directory import Directory
from lochan.stores.rocksdb.failures import lost_rows, opening_failure
from lochan.stores.rocksdb.options import Parameters, build_options


def open_database(directory: Directory, parameters: Parameters) -> Rdict:
    """Opens the files, read-only first: opening them for writing would drop a damaged log."""
    options = build_options(parameters, create=directory.is_new)
    try:
        if directory.durable and not parameters.drop_after_damage:
            _check_nothing_lost(directory, options)
        # Without this argument the driver would use the options that the last opening stored.
        return Rdict(str(directory.path), options, column_families={"default": options})
    except LochanError:
        raise
    except Exception as error:
        raise opening_failure(directory.path, error) from error


def _check_nothing_lost(directory: Directory, options: Options) -> None:
    reader = Rdict(
        str(directory.path),
        options,
        column_families={"default": options},
        access_type=AccessType.read_only(),
    )
    found = reader.latest_sequence_number()
    reader.close()
    if found < directory.durable:
        raise lost_rows(directory.path)
