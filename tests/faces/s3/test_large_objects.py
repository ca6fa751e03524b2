"""Large objects by parallel parts: the memory of the server stays, and every byte is right."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest

from lochan.base.limits.blocks import PART_BYTES_MIN
from tests.faces.s3.process import GatewayProcess, gateway_process
from tests.profile import counted

PART_BYTES = 8 * 2**20
PARTS = counted(12, 640)
"""640 parts are 5 GiB."""

# What the process may grow by, however large the object is: buffers of 8 parts and of the store.
GROWTH_BYTES_MAX = 192 * 2**20

NAMES = {"Bucket": "default", "Key": "main/large"}


def part(number: int) -> bytes:
    """Returns the bytes of a part; no two are alike."""
    return hashlib.sha256(b"%d" % number).digest() * (PART_BYTES // 32)


@pytest.mark.slow
def test_a_large_object_passes_in_constant_memory(tmp_path):
    with gateway_process(tmp_path / "server") as server:
        s3 = server.s3()
        process = psutil.Process(server.process.pid)
        before = process.memory_info().rss
        upload = s3.create_multipart_upload(**NAMES)["UploadId"]
        most = [before]

        def send(number: int) -> dict[str, object]:
            answer = s3.upload_part(**NAMES, UploadId=upload, PartNumber=number, Body=part(number))
            most.append(process.memory_info().rss)
            return {"PartNumber": number, "ETag": answer["ETag"]}

        with ThreadPoolExecutor(8) as pool:
            parts = list(pool.map(send, range(1, PARTS + 1)))
        done = s3.complete_multipart_upload(
            **NAMES, UploadId=upload, MultipartUpload={"Parts": parts}
        )
        digests = b"".join(
            hashlib.md5(part(number), usedforsecurity=False).digest()
            for number in range(1, PARTS + 1)
        )
        whole = hashlib.md5(digests, usedforsecurity=False).hexdigest()
        assert done["ETag"] == f'"{whole}-{PARTS}"'
        assert s3.head_object(**NAMES)["ContentLength"] == PARTS * PART_BYTES

        def read(number: int) -> bool:
            # Across the border of two parts.
            start = number * PART_BYTES - 1_000
            found = s3.get_object(**NAMES, Range=f"bytes={start}-{start + 1_999}")["Body"].read()
            most.append(process.memory_info().rss)
            return bool(found == part(number)[-1_000:] + part(number + 1)[:1_000])

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read, range(1, PARTS)))
        digest = hashlib.sha256()
        for piece in s3.get_object(**NAMES)["Body"].iter_chunks(2**20):
            digest.update(piece)
        most.append(process.memory_info().rss)
        wanted = hashlib.sha256()
        for number in range(1, PARTS + 1):
            wanted.update(part(number))
        assert digest.hexdigest() == wanted.hexdigest()
        grown = max(most) - before
        print(f"object_bytes={PARTS * PART_BYTES} grown_bytes={grown}")
        assert grown < GROWTH_BYTES_MAX


def _body(server: GatewayProcess, at: int) -> Iterator[bytes]:
    """Yields a body of which the server gets killed in the middle."""
    for number in range(8):
        if number == at:
            server.kill()
        yield bytes([number]) * 2**20


@pytest.mark.slow
def test_after_a_kill_no_half_object_is_visible(tmp_path):
    """Puts, parts and completions are interrupted; what was acknowledged before is there."""
    folder = tmp_path / "server"
    for kill_at in (1, 6) if counted(0, 1) == 0 else range(1, 8):
        with gateway_process(folder) as server:
            s3 = server.s3()
            s3.put_object(Bucket="default", Key=f"main/kept/{kill_at}", Body=b"kept" * 9_000)
            upload = s3.create_multipart_upload(Bucket="default", Key="main/half")["UploadId"]
            whole = {"Bucket": "default", "Key": "main/half", "UploadId": upload}
            sent = s3.upload_part(**whole, PartNumber=1, Body=b"1" * PART_BYTES_MIN)
            with ThreadPoolExecutor(2) as pool:
                put = pool.submit(_put, s3, server, kill_at)
                part_two = pool.submit(s3.upload_part, **whole, PartNumber=2, Body=b"2" * 2**20)
                assert put.exception() is not None
                part_two.exception()
        with gateway_process(folder) as server:
            s3 = server.s3()
            found = s3.list_objects_v2(Bucket="default", Prefix="main/")
            keys = [each["Key"] for each in found["Contents"]]
            assert "main/half" not in keys
            assert "main/put" not in keys
            assert f"main/kept/{kill_at}" in keys
            body = s3.get_object(Bucket="default", Key=f"main/kept/{kill_at}")["Body"].read()
            assert body == b"kept" * 9_000
            # The upload is still there, and goes on.
            one = {"PartNumber": 1, "ETag": sent["ETag"]}
            (first, *_) = s3.list_parts(**whole)["Parts"]
            assert (first["PartNumber"], first["Size"]) == (1, PART_BYTES_MIN)
            s3.complete_multipart_upload(**whole, MultipartUpload={"Parts": [one]})
            assert s3.head_object(Bucket="default", Key="main/half")["ContentLength"] == (
                PART_BYTES_MIN
            )
            s3.delete_object(Bucket="default", Key="main/half")


def _put(s3, server: GatewayProcess, kill_at: int) -> None:
    """Sends an object by a signed address, so that its body may come in pieces."""
    url = s3.generate_presigned_url("put_object", {"Bucket": "default", "Key": "main/put"}, 60)
    httpx.put(url, content=_body(server, kill_at), timeout=60).raise_for_status()
