"""Documents of ListBuckets: pages of several origins as one."""

import pytest

from forebay.core.errors import MalformedXml
from forebay.protocol.xml.bucket_lists import BucketPage, bucket_list, read_bucket_page
from forebay.protocol.xml.xml_tree import Element, read_tree


def page(*names: str, owner: str = "me", token: str = "") -> BucketPage:
    buckets = "".join(f"<Bucket><Name>{name}</Name><CreationDate>then</CreationDate></Bucket>" for name in names)
    more = f"<ContinuationToken>{token}</ContinuationToken>" if token else ""
    return read_bucket_page(
        f'<ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Owner><ID>{owner}</ID></Owner>'
        f"<Buckets>{buckets}</Buckets>{more}</ListAllMyBucketsResult>".encode()
    )


def listed(*pages: BucketPage, prefix: str = "", token: str = "", limit: str = "") -> Element:
    return read_tree(bucket_list(pages, prefix, token, limit), max_size=1 << 20, max_elements=1000)


def names_of(root: Element) -> list[str]:
    return [each.text_at("Name") for parent in root.all("Buckets") for each in parent.all("Bucket")]


def test_pages_become_one_sorted_list() -> None:
    root = listed(page("b", "d"), page("c", "a", owner="other"))
    assert names_of(root) == ["a", "b", "c", "d"]
    assert root.text_at("Owner", "ID") == "me"
    assert root.find("ContinuationToken") is None


def test_a_list_goes_on_after_its_last_bucket() -> None:
    pages = [page("a", "c"), page("b", "d")]
    first = listed(*pages, limit="3")
    assert (names_of(first), first.text_at("ContinuationToken")) == (["a", "b", "c"], "c")
    rest = listed(*pages, token="c", limit="3")  # of the page
    assert (names_of(rest), rest.find("ContinuationToken")) == (["d"], None)
    assert names_of(listed(*pages, limit="0")) == ["a", "b", "c", "d"]  # an unusable limit is none


def test_a_prefix_is_repeated() -> None:
    root = listed(page("ab", "b"), prefix="a")
    assert (names_of(root), root.text_at("Prefix")) == (["ab"], "a")


def test_no_buckets_are_a_list_too() -> None:
    root = listed(page())
    assert (root.name, names_of(root)) == ("ListAllMyBucketsResult", [])


def test_the_token_of_a_page_is_read() -> None:
    assert page("a", token="next").token == "next"  # of the page
    with pytest.raises(MalformedXml):
        read_bucket_page(b"<not")
