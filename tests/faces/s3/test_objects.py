"""Objects by boto3: written, read, copied, deleted, with conditions, and every usual error."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

from tests.faces.s3.gateway import REPOSITORY, code_of
from tests.faces.s3.test_access import refused

KEYS = [
    "plain",
    "a/./b/../c",
    "..",
    "../../etc/passwd",
    "/leading//double/",
    "blank and + plus & amp % percent?question#hash",
    "ünï-çødé/日本語/🙂",
    "quote\"'<tag>`~^[]{}|\\",
    "tab\tnewline\nreturn\rend",
    "control\x01\x7f",
    "%2F%2e%2e",
    "x" * 1_000,
]


def md5(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


@pytest.mark.parametrize("key", KEYS)
def test_every_legal_key_is_a_key(shared, key):
    full = f"main/names/{key}"
    shared.put(full, key.encode())
    assert shared.get(full) == key.encode()
    assert full in shared.keys("main/names/")
    shared.s3.copy_object(
        Bucket=REPOSITORY,
        Key=f"{full}.copy"[:1_020],
        CopySource={"Bucket": REPOSITORY, "Key": full},
    )
    if "\x01" in full:
        # No document can name it.
        shared.s3.delete_object(Bucket=REPOSITORY, Key=full)
    else:
        deleted = shared.s3.delete_objects(Bucket=REPOSITORY, Delete={"Objects": [{"Key": full}]})
        assert "Errors" not in deleted
    assert full not in shared.keys("main/names/")


def test_dots_on_the_wire_are_keys_and_no_steps(shared):
    target = f"/{REPOSITORY}/main/./x/../y//z"
    assert shared.send("PUT", target, {}, b"dots").status_code == 200
    assert shared.get("main/./x/../y//z") == b"dots"
    # The same bytes as another client would write them.
    encoded = f"/{REPOSITORY}/main/%2E/x/%2e%2E/y//z"
    assert shared.send("GET", encoded).content == b"dots"


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 300_000, 3_000_000])
def test_an_object_is_read_as_it_was_written(shared, size):
    body = hashlib.sha256(b"%d" % size).digest() * (size // 32 + 1)
    body = body[:size]
    made = shared.put(f"main/sizes/{size}", body, ContentType="a/b", Metadata={"One": "1"})
    assert made["ETag"] == md5(body)
    found = shared.s3.get_object(Bucket=REPOSITORY, Key=f"main/sizes/{size}")
    assert found["Body"].read() == body
    assert (found["ContentType"], found["ETag"]) == ("a/b", md5(body))
    assert found["Metadata"]["one"] == "1"
    head = shared.s3.head_object(Bucket=REPOSITORY, Key=f"main/sizes/{size}")
    assert head["ContentLength"] == size
    assert head["LastModified"] == found["LastModified"]
    with shared.admin() as client:
        assert client.files.stat("main", f"sizes/{size}").etag == made["ETag"].strip('"')


def test_headers_of_http_are_kept(shared):
    kept = {
        "CacheControl": "max-age=1",
        "ContentDisposition": "inline",
        "ContentEncoding": "gzip",
        "ContentLanguage": "de",
        "Expires": datetime(2030, 1, 1, tzinfo=UTC),
    }
    shared.put("main/kept", b"x", **kept)
    head = shared.s3.head_object(Bucket=REPOSITORY, Key="main/kept")
    assert {name: head[name] for name in kept} == kept


def test_metadata_is_the_same_in_every_face(shared):
    shared.put("main/meta", b"x", Metadata={"owner": "ada"})
    with shared.admin() as client:
        assert dict(client.files.stat("main", "meta").metadata) == {"owner": "ada"}
        client.files.update("main", "meta", metadata={"owner": "bob", "größe": "1", "n": "ö"})
    head = shared.s3.head_object(Bucket=REPOSITORY, Key="main/meta")
    assert head["Metadata"]["owner"] == "bob"
    assert head["Metadata"]["n"] == "=?UTF-8?B?w7Y=?="
    assert head["MissingMeta"] == 1


def test_too_much_metadata_is_refused(shared):
    answer = refused(shared.put, "main/toomuch", b"x", Metadata={"a": "x" * 2_048})
    assert answer == (400, "MetadataTooLarge")


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [("bytes=0-0", 0, 1), ("bytes=5-9", 5, 10), ("bytes=90-", 90, None), ("bytes=-3", -3, None)],
)
@pytest.mark.parametrize("size", [100, 50_000])
def test_a_range_is_those_bytes(shared, size, asked, start, stop):
    body = bytes(range(100)) * (size // 100)
    shared.put(f"main/ranges/{size}", body)
    found = shared.s3.get_object(Bucket=REPOSITORY, Key=f"main/ranges/{size}", Range=asked)
    assert found["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert found["Body"].read() == body[start:stop]
    head = shared.s3.head_object(Bucket=REPOSITORY, Key=f"main/ranges/{size}", Range=asked)
    assert head["ContentLength"] == len(body[start:stop])


def test_a_range_behind_the_end_is_refused(shared):
    shared.put("main/ranges/short", b"x" * 10)
    code = refused(shared.get, "main/ranges/short", Range="bytes=10-")
    assert code == (416, "InvalidRange")


def test_conditions_of_reads(shared):
    tag = shared.put("main/conditions", b"abc")["ETag"]
    head = shared.s3.head_object(Bucket=REPOSITORY, Key="main/conditions")
    when = head["LastModified"]
    before, after = when - timedelta(seconds=5), when + timedelta(seconds=5)
    for good in (
        {"IfMatch": tag},
        {"IfNoneMatch": '"other"'},
        {"IfModifiedSince": before},
        {"IfUnmodifiedSince": after},
        {"IfMatch": tag, "IfUnmodifiedSince": before},
        {"IfNoneMatch": '"other"', "IfModifiedSince": after},
    ):
        assert shared.get("main/conditions", **good) == b"abc"
    for bad, status in (
        ({"IfMatch": '"other"'}, 412),
        ({"IfUnmodifiedSince": before}, 412),
        ({"IfNoneMatch": tag}, 304),
        ({"IfModifiedSince": after}, 304),
    ):
        assert refused(shared.get, "main/conditions", **bad)[0] == status
        head_object = shared.s3.head_object
        assert refused(head_object, Bucket=REPOSITORY, Key="main/conditions", **bad)[0] == status


def test_conditions_of_writes(shared):
    shared.put("main/once", b"1", IfNoneMatch="*")
    assert refused(shared.put, "main/once", b"2", IfNoneMatch="*") == (412, "PreconditionFailed")
    tag = shared.s3.head_object(Bucket=REPOSITORY, Key="main/once")["ETag"]
    assert refused(shared.put, "main/once", b"2", IfMatch='"x"') == (412, "PreconditionFailed")
    shared.put("main/once", b"2", IfMatch=tag)
    assert shared.get("main/once") == b"2"
    assert refused(shared.put, "main/never", b"2", IfMatch='"x"') == (404, "NoSuchKey")
    delete = shared.s3.delete_object
    assert refused(delete, Bucket=REPOSITORY, Key="main/once", IfMatch=tag)[0] == 412
    assert shared.get("main/once") == b"2"


def test_a_copy_has_the_bytes_and_metadata_or_those_of_the_request(shared):
    tag = shared.put("main/copy/a", b"x" * 20_000, ContentType="a/b", Metadata={"m": "1"})["ETag"]

    def copy(to: str, bucket: str = REPOSITORY, **more):
        source = {"Bucket": REPOSITORY, "Key": "main/copy/a"}
        shared.s3.copy_object(Bucket=bucket, Key=to, CopySource=source, **more)
        found = shared.s3.get_object(Bucket=bucket, Key=to)
        return {**found, "Body": found["Body"].read()}

    for bucket in (REPOSITORY, "other"):
        same = copy("main/copy/b", bucket)
        assert (same["Body"], same["ETag"]) == (b"x" * 20_000, tag)
        assert (same["ContentType"], same["Metadata"]) == ("a/b", {"m": "1"})
        new = {"MetadataDirective": "REPLACE", "ContentType": "c/d", "Metadata": {"n": "2"}}
        other = copy("main/copy/c", bucket, **new)
        assert (other["ContentType"], other["Metadata"]) == ("c/d", {"n": "2"})
    assert refused(copy, "main/copy/a") == (400, "InvalidRequest")
    changed = copy("main/copy/a", MetadataDirective="REPLACE", Metadata={"self": "1"})
    assert changed["Metadata"] == {"self": "1"}


def test_conditions_of_copies(shared):
    tag = shared.put("main/copies/a", b"1")["ETag"]

    def copy(to: str = "main/copies/b", key: str = "main/copies/a", **more):
        source = {"Bucket": REPOSITORY, "Key": key}
        shared.s3.copy_object(Bucket=REPOSITORY, Key=to, CopySource=source, **more)

    now = datetime.now(UTC)
    copy(CopySourceIfMatch=tag, CopySourceIfModifiedSince=now - timedelta(days=1))
    for bad in (
        {"CopySourceIfMatch": '"x"'},
        {"CopySourceIfNoneMatch": tag},
        {"CopySourceIfUnmodifiedSince": now - timedelta(days=1)},
        {"CopySourceIfModifiedSince": now + timedelta(days=1)},
        {"IfNoneMatch": "*"},
    ):
        assert refused(copy, **bad) == (412, "PreconditionFailed")
    assert refused(copy, key="main/copies/none") == (404, "NoSuchKey")
    assert refused(copy, key="none/x") == (404, "NoSuchKey")


def test_many_objects_are_deleted_and_each_has_its_answer(shared):
    for at in range(3):
        shared.put(f"main/bulk/{at}")
    objects = [{"Key": f"main/bulk/{at}"} for at in range(3)]
    bad = [{"Key": "nowhere/x"}, {"Key": "main"}, {"Key": "main/bulk/v", "VersionId": "1"}]
    done = shared.s3.delete_objects(Bucket=REPOSITORY, Delete={"Objects": [*objects, *bad]})
    assert [each["Key"] for each in done["Deleted"]] == [each["Key"] for each in objects]
    codes = {each["Key"]: each["Code"] for each in done["Errors"]}
    assert codes == {
        "nowhere/x": "NoSuchBucket",
        "main": "InvalidArgument",
        "main/bulk/v": "NotImplemented",
    }
    quiet = shared.s3.delete_objects(Bucket=REPOSITORY, Delete={"Objects": objects, "Quiet": True})
    assert "Deleted" not in quiet
    assert shared.keys("main/bulk/") == []


@pytest.mark.parametrize("count", [1_001, 10_000])
def test_more_than_a_thousand_deletions_are_refused_and_none_is_done(shared, count):
    shared.put("main/refused/stays")
    objects = [{"Key": "main/refused/stays"}] + [{"Key": f"main/{at}"} for at in range(count - 1)]
    delete = shared.s3.delete_objects
    assert refused(delete, Bucket=REPOSITORY, Delete={"Objects": objects}) == (400, "MalformedXML")
    assert shared.get("main/refused/stays") == b"x"


BAD_XML = {
    "empty": b"",
    "text": b"not xml",
    "cut": b"<Delete><Object><Key>main/xml/a</Key></Object>",
    "other": b"<Other><Object><Key>main/xml/a</Key></Object></Other>",
    "no key": b"<Delete><Object></Object></Delete>",
    "two keys": b"<Delete><Object><Key>main/xml/a</Key><Key>b</Key></Object></Delete>",
    "entities": (
        b'<!DOCTYPE d [<!ENTITY a "x"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
        b'<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>'
        b"<Delete><Object><Key>main/xml/a&c;</Key></Object></Delete>"
    ),
    "external": (
        b'<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
        b"<Delete><Object><Key>&a;</Key></Object></Delete>"
    ),
    "doctype": b"<!DOCTYPE Delete><Delete><Object><Key>main/xml/a</Key></Object></Delete>",
    "deep": b"<Delete>" + b"<a>" * 10_000 + b"</a>" * 10_000 + b"</Delete>",
    "unknown entity": b"<Delete><Object><Key>main/xml/&nbsp;</Key></Object></Delete>",
    "encoding": b'<?xml version="1.0" encoding="klingon"?><Delete/>',
    "bytes": b"<Delete><Object><Key>main/xml/\xff</Key></Object></Delete>",
}


@pytest.mark.parametrize("name", BAD_XML)
def test_a_document_that_is_malformed_or_hostile_deletes_nothing(shared, name):
    shared.put("main/xml/a")
    answer = shared.send("POST", f"/{REPOSITORY}?delete", {}, BAD_XML[name])
    assert code_of(answer) == (400, "MalformedXML")
    assert shared.get("main/xml/a") == b"x"


@pytest.mark.parametrize(
    ("method", "target", "code"),
    [
        ("GET", "/lake/main/absent", (404, "NoSuchKey")),
        ("GET", "/lake/absent/x", (404, "NoSuchKey")),
        ("GET", "/lake/key-without-slash", (404, "NoSuchKey")),
        ("GET", "/lake/main/", (404, "NoSuchKey")),
        ("GET", "/absent/main/x", (404, "NoSuchBucket")),
        ("GET", "/absent", (404, "NoSuchBucket")),
        ("GET", "/lake?location=", 200),
        ("PUT", "/lake/absent/x", (404, "NoSuchBucket")),
        ("PUT", "/lake/no-path", (400, "InvalidArgument")),
        ("PUT", "/lake/main/", 200),
        ("PUT", "/lake/absent/", (404, "NoSuchBucket")),
        ("PUT", "/lake/main/" + "x" * 1_025, (400, "KeyTooLongError")),
        ("DELETE", "/lake/main/absent", 204),
        ("DELETE", "/lake/absent/x", (404, "NoSuchBucket")),
        ("PUT", "/lake", (409, "BucketAlreadyOwnedByYou")),
        ("PUT", "/absent", (501, "NotImplemented")),
        ("DELETE", "/lake", (501, "NotImplemented")),
        ("GET", "/lake?acl", (501, "NotImplemented")),
        ("GET", "/lake?policy=", (501, "NotImplemented")),
        ("GET", "/lake?versions", (501, "NotImplemented")),
        ("GET", "/lake?something-new", (501, "NotImplemented")),
        ("PUT", "/lake/main/x?tagging", (501, "NotImplemented")),
        ("PUT", "/lake/main/x?acl", (501, "NotImplemented")),
        ("GET", "/lake/main/x?versionId=3", (501, "NotImplemented")),
        ("GET", "/lake/main/x?partNumber=1", (501, "NotImplemented")),
        ("POST", "/lake", (501, "NotImplemented")),
        ("POST", "/lake/main/x?select&select-type=2", (501, "NotImplemented")),
        ("POST", "/", (405, "MethodNotAllowed")),
        ("PATCH", "/lake/main/x", (405, "MethodNotAllowed")),
        ("GET", "/lake/main/%ff", (400, "InvalidURI")),
        ("GET", "/lake/main/%00", (400, "InvalidURI")),
        ("GET", "/lake/main/%zz", (400, "InvalidURI")),
        ("GET", "/lake?max-keys=many", (400, "InvalidArgument")),
        ("GET", "/lake?encoding-type=base64", (400, "InvalidArgument")),
        ("GET", "/lake?list-type=2&continuation-token=x", (400, "InvalidArgument")),
    ],
)
def test_errors_are_worded_as_in_aws(shared, method, target, code):
    answer = shared.send(method, target)
    found = code_of(answer)
    assert found == code if isinstance(code, tuple) else found[0] == code
    assert answer.headers["x-amz-request-id"]
    if isinstance(code, tuple):
        assert f"<RequestId>{answer.headers['x-amz-request-id']}</RequestId>" in answer.text
        assert answer.headers["content-type"] == "application/xml"


@pytest.mark.parametrize(
    "header",
    [
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-object-lock-mode", "GOVERNANCE"),
        ("x-amz-acl", "public-read"),
        ("x-amz-grant-read", "id=x"),
        ("x-amz-website-redirect-location", "/x"),
        ("x-amz-expected-bucket-owner", "123"),
    ],
)
def test_a_demand_that_is_not_met_is_refused_and_nothing_is_stored(shared, header):
    target = f"/{REPOSITORY}/main/demands"
    assert code_of(shared.send("PUT", target, dict([header]), b"x")) == (501, "NotImplemented")
    assert shared.keys("main/demands") == []


def test_an_object_has_no_tags_and_an_absent_one_is_not_found(shared):
    shared.put("main/untagged", b"1")
    found = shared.s3.get_object_tagging(Bucket=REPOSITORY, Key="main/untagged")
    assert found["TagSet"] == []
    with pytest.raises(ClientError) as refused:
        shared.s3.get_object_tagging(Bucket=REPOSITORY, Key="main/no such object")
    assert refused.value.response["Error"]["Code"] == "NoSuchKey"


def test_only_branches_are_written(shared):
    shared.put("main/committed", b"1")
    with shared.admin() as client:
        done = client.files.commit("main", "one")
        client.references.create("v1", kind="TAG")
    for ref in ("v1", done.hash, f"main@{done.hash}"):
        assert shared.get(f"{ref}/committed") == b"1"
        assert f"{ref}/committed" in shared.keys(f"{ref}/")
        with pytest.raises(ClientError):
            shared.put(f"{ref}/committed", b"2")
    shared.put("main/committed", b"2")
    assert shared.get("main/committed") == b"2"
    assert shared.get("v1/committed") == b"1"


def test_a_slash_in_the_name_of_a_branch_is_written_as_an_escape(shared):
    with shared.admin() as client:
        client.references.create("feature/one")
    shared.put("feature%2Fone/escaped", b"1")
    assert shared.get("feature%2fone/escaped") == b"1"
    assert shared.keys("feature%2Fone/escaped") == ["feature%2Fone/escaped"]
    with shared.admin() as client:
        assert client.files.read("feature/one", "escaped") == b"1"
    prefixes = shared.s3.list_objects_v2(Bucket=REPOSITORY, Prefix="fea", Delimiter="/")
    assert [each["Prefix"] for each in prefixes["CommonPrefixes"]] == ["feature%2Fone/"]


def test_a_bucket_may_be_the_name_of_a_host(shared):
    shared.put("main/hosted", b"1")
    for domain in ("s3.test", "localhost"):
        host = f"{REPOSITORY}.{domain}:{shared.host.rpartition(':')[2]}"
        headers = shared.sign("GET", "/main/hosted", {"Host": host})
        assert shared.send_signed("GET", "/main/hosted", headers).content == b"1"
        headers = shared.sign("GET", "/", {"Host": host})
        assert b"<Name>lake</Name>" in shared.send_signed("GET", "/", headers).content
    headers = shared.sign("GET", "/main/hosted", {"Host": "lake.elsewhere.test"})
    assert shared.send_signed("GET", "/main/hosted", headers).status_code == 421


def test_what_is_not_signed_below_api_is_not_of_the_gateway(shared):
    answer = shared.http.get("/api/v1/repositories")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("application/json")
    assert code_of(shared.send("GET", "/api/v1/repositories")) == (404, "NoSuchBucket")
