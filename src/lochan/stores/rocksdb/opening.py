"""Opening the files of a database, without losing what a damaged log still holds."""

from __future__ import annotations

from rocksdict import AccessType, Options, Rdict

from lochan.base.errors import LochanError
from lochan.stores.rocksdb.directory import Directory
from lochan.stores.rocksdb.failures import lost_rows, opening_failure
from lochan.stores.rocksdb.options import Settings, build_options


def open_database(directory: Directory, settings: Settings) -> Rdict:
    """Opens the files, first for reading only: opening for writing would drop a damaged log."""
    options = build_options(settings, create=directory.is_new)
    try:
        if directory.durable and not settings.drop_after_damage:
            _check_nothing_lost(directory, options)
        # Named here as well, or the driver takes the options of the last opening from the disk.
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
