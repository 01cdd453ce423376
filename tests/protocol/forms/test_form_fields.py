"""How a form that was carried out is answered."""

from forebay.core.names import ObjectName
from forebay.protocol.forms.form_fields import success_response
from forebay.protocol.xml.record_reader import read_document


def test_the_answer_is_a_document_whatever_the_key_holds() -> None:
    key = "a\r\b<&>\x1f\ufffe b"
    status, _, body = success_response({"success_action_status": "201"}, ObjectName("b", key), '"tag"')
    told = read_document(body, max_size=10_000, max_elements=10, max_depth=2)
    assert (status, told.root) == (201, "PostResponse")
    assert told.fields["Key"] == "a\r\ufffd<&>\ufffd\ufffd b"
