"""The response to a form that was carried out."""

from forebay.core.names import ObjectName
from forebay.protocol.forms.form_fields import success_response
from forebay.protocol.xml.record_reader import read_document


def test_the_response_is_well_formed_for_any_key() -> None:
    key = "a\r\b<&>\x1f\ufffe b"
    status, _, body = success_response({"success_action_status": "201"}, ObjectName("b", key), '"tag"')
    document = read_document(body, max_size=10_000, max_elements=10, max_depth=2)
    assert (status, document.root) == (201, "PostResponse")
    assert document.fields["Key"] == "a\r\ufffd<&>\ufffd\ufffd b"
