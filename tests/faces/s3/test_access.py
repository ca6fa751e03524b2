"""Who may use the gateway: signatures by header and in addresses, other credentials, none."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from lochan.model.access import Statement
from tests.faces.s3.gateway import REPOSITORY, code_of


def refused(call, *arguments, **more):
    with pytest.raises(ClientError) as raised:
        call(*arguments, **more)
    response = raised.value.response
    assert response["ResponseMetadata"]["HTTPHeaders"]["x-amz-request-id"]
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


def test_a_signed_request_of_a_known_key_is_served(shared):
    shared.put("main/access/a", b"1")
    assert shared.get("main/access/a") == b"1"


def test_an_unknown_key_and_a_wrong_secret_are_told_apart_as_in_aws(shared):
    unknown = shared.client("LOCH" + "A" * 16, "a" * 52)
    assert refused(unknown.list_buckets) == (403, "InvalidAccessKeyId")
    assert refused(unknown.list_buckets) == (403, "InvalidAccessKeyId")
    foreign = shared.client("AKIAIOSFODNN7EXAMPLE", "x" * 40)
    assert refused(foreign.list_buckets) == (403, "InvalidAccessKeyId")
    wrong = shared.client(shared.key, "a" * 52)
    assert refused(wrong.list_buckets) == (403, "SignatureDoesNotMatch")


def test_nothing_of_a_refused_signature_is_stored_or_shown(shared):
    shared.put("main/access/kept", b"1")
    wrong = shared.client(shared.key, "a" * 52)
    put = wrong.put_object
    assert refused(put, Bucket=REPOSITORY, Key="main/access/kept", Body=b"2" * 100_000) == (
        403,
        "SignatureDoesNotMatch",
    )
    assert shared.get("main/access/kept") == b"1"
    assert refused(wrong.get_object, Bucket=REPOSITORY, Key="main/access/kept")[0] == 403


def test_without_credentials_there_is_nothing(shared):
    for target in ("/", f"/{REPOSITORY}", f"/{REPOSITORY}/main/access/a", "/absent/x"):
        assert code_of(shared.http.get(target)) == (403, "AccessDenied")


def test_tokens_and_access_keys_without_a_signature_count_too(shared):
    shared.put("main/access/bearer", b"1")
    target = f"/{REPOSITORY}/main/access/bearer"
    bearer = {"authorization": f"Bearer {shared.token}"}
    assert shared.http.get(target, headers=bearer).content == b"1"
    assert shared.http.get(target, auth=(shared.key, shared.secret)).content == b"1"
    assert code_of(shared.http.get(target, auth=(shared.key, "wrong"))) == (403, "AccessDenied")


@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_clock_that_is_wrong_is_named(shared, minutes, monkeypatch):
    target = f"/{REPOSITORY}"
    headers = shared.sign("GET", target)
    assert shared.send_signed("GET", target, headers).status_code == 200
    wrong = datetime.now(UTC) + timedelta(minutes=minutes)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda **_: wrong)
    headers = shared.sign("GET", target)
    assert code_of(shared.send_signed("GET", target, headers)) == (403, "RequestTimeTooSkewed")


def test_version_two_is_refused_with_the_way_out(shared):
    headers = {"authorization": f"AWS {shared.key}:frJIUN8DYpKDtOLCwo//yllqDzg="}
    answer = shared.http.get(f"/{REPOSITORY}", headers=headers)
    assert code_of(answer) == (400, "InvalidRequest")
    assert "AWS4-HMAC-SHA256" in answer.text
    address = f"/{REPOSITORY}/main/x?AWSAccessKeyId={shared.key}&Signature=abc&Expires=1175139620"
    assert code_of(shared.http.get(address)) == (400, "InvalidRequest")


def test_a_body_that_is_not_signed_as_it_was_sent_is_refused(shared):
    target = f"/{REPOSITORY}/main/access/body"
    headers = shared.sign("PUT", target, {}, b"one")
    answer = shared.send_signed("PUT", target, headers, b"two")
    assert code_of(answer) == (400, "XAmzContentSHA256Mismatch")
    assert "main/access/body" not in shared.keys("main/access/")


def test_a_request_without_the_digest_of_its_body_is_refused(shared):
    target = f"/{REPOSITORY}"
    headers = shared.sign("GET", target)
    headers.pop("X-Amz-Content-SHA256")
    assert code_of(shared.send_signed("GET", target, headers)) == (400, "InvalidRequest")


def test_a_signed_address_reads_and_writes_until_it_expires(shared):
    def address(operation: str, seconds: int = 60) -> str:
        params = {"Bucket": REPOSITORY, "Key": "main/access/signed"}
        return str(shared.s3.generate_presigned_url(operation, params, seconds))

    assert httpx.put(address("put_object"), content=b"by address").status_code == 200
    reading = address("get_object")
    # It may be used again.
    assert [httpx.get(reading).content for _ in range(2)] == [b"by address"] * 2
    assert code_of(httpx.put(reading, content=b"x")) == (403, "SignatureDoesNotMatch")
    assert code_of(httpx.get(reading.replace("signed", "a", 1))) == (403, "SignatureDoesNotMatch")
    longer = re.sub("X-Amz-Expires=60", "X-Amz-Expires=600", reading)
    assert code_of(httpx.get(longer)) == (403, "SignatureDoesNotMatch")
    assert code_of(httpx.get(address("get_object", 604_801)))[0] == 400
    with_header = httpx.get(reading, headers={"x-amz-copy-source": "/other/x"})
    assert code_of(with_header) == (403, "AccessDenied")
    assert shared.get("main/access/signed") == b"by address"


def test_a_signed_address_may_choose_headers_of_its_answer(shared):
    shared.put("main/access/page", b"x", ContentType="text/html", CacheControl="no-store")
    params = {
        "Bucket": REPOSITORY,
        "Key": "main/access/page",
        "ResponseContentType": "text/plain",
        "ResponseContentDisposition": 'attachment; filename="x"',
    }
    answer = httpx.get(shared.s3.generate_presigned_url("get_object", params, 60))
    assert answer.headers["content-type"] == "text/plain"
    assert answer.headers["content-disposition"] == 'attachment; filename="x"'
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    plain = shared.http.get(
        f"/{REPOSITORY}/main/access/page?response-content-type=text/plain",
        headers={"authorization": f"Bearer {shared.token}"},
    )
    assert code_of(plain) == (400, "InvalidRequest")


def test_an_expired_address_is_refused(shared, monkeypatch):
    before = datetime.now(UTC) - timedelta(seconds=61)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda **_: before)
    request = AWSRequest("GET", f"{shared.url}/{REPOSITORY}/main/access/signed")
    credentials = Credentials(shared.key, shared.secret)
    S3SigV4QueryAuth(credentials, "s3", "us-east-1", 60).add_auth(request)
    answer = httpx.get(request.url)
    assert code_of(answer) == (403, "AccessDenied")
    assert "expired" in answer.text


def test_rights_are_those_of_every_other_face(shared):
    shared.put("main/access/public/a", b"1")
    shared.put("main/access/secret", b"2")
    may_read = Statement(
        effect="allow",
        actions=("read",),
        repositories=(REPOSITORY,),
        references=("main",),
        paths=("access/public/*",),
    )
    client = shared.client(*shared.user("reader", may_read))
    assert [each["Name"] for each in client.list_buckets()["Buckets"]] == [REPOSITORY]
    found = client.list_objects_v2(Bucket=REPOSITORY, Prefix="main/access/")
    assert [each["Key"] for each in found["Contents"]] == ["main/access/public/a"]
    for key in ("main/access/secret", "main/access/absent"):
        assert refused(client.head_object, Bucket=REPOSITORY, Key=key) == (404, "404")
        assert refused(client.get_object, Bucket=REPOSITORY, Key=key) == (404, "NoSuchKey")
    put = client.put_object
    assert refused(put, Bucket=REPOSITORY, Key="main/access/public/a", Body=b"3")[0] == 403
    assert refused(client.head_bucket, Bucket="other") == (404, "404")
    source = {"Bucket": "other", "Key": "main/x"}
    assert refused(
        client.copy_object, Bucket=REPOSITORY, Key="main/access/public/b", CopySource=source
    ) in ((404, "NoSuchBucket"), (403, "AccessDenied"))
    assert shared.get("main/access/public/a") == b"1"


def test_two_keys_of_one_object_are_both_refused(shared):
    with shared.admin() as client:
        client.references.create("kept/one", None)
        client.files.put("kept/one", "a", b"kept")
    client = shared.client(*shared.user("looker", Statement(effect="allow", actions=("read",))))
    keys = ["kept%2Fone/a", "kept%2fone/a"]
    named = {"Objects": [{"Key": key} for key in keys]}
    found = client.delete_objects(Bucket=REPOSITORY, Delete=named)
    assert "Deleted" not in found
    assert [one["Key"] for one in found["Errors"]] == keys
    assert shared.get(keys[0]) == b"kept"


def test_a_key_that_was_deleted_counts_no_more(shared):
    key, secret = shared.user("short-lived")
    client = shared.client(key, secret)
    assert refused(client.head_bucket, Bucket=REPOSITORY)[0] in (403, 404)
    with shared.admin() as admin:
        admin.access.delete_access_key(key)
    assert refused(client.list_buckets) == (403, "InvalidAccessKeyId")
