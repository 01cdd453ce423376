from forebay.protocol.signatures.signing_key import Scope, SecretKey, sign, signing_key, string_to_sign


def test_repr_omits_secret_and_token() -> None:
    key = SecretKey("AK", "very secret", "a token")
    assert repr(key) == "SecretKey(access_key='AK')"


def test_signing_key_differs_for_each_scope() -> None:
    scope = Scope("20130524", "us-east-1", "s3")
    keys = {signing_key("secret", *scope), signing_key("secret", "20130525", "us-east-1", "s3")}
    keys |= {signing_key("secret", "20130524", "us-east-2", "s3"), signing_key("other", *scope)}
    keys |= {signing_key("secret", "20130524", "us-east-1", "iam")}
    assert len(keys) == 5


def test_string_to_sign_of_amazons_example() -> None:
    # From the GET example of sig-v4-header-based-auth.html.
    request = (
        "GET\n/test.txt\n\nhost:examplebucket.s3.amazonaws.com\nrange:bytes=0-9\n"
        "x-amz-content-sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
        "x-amz-date:20130524T000000Z\n\nhost;range;x-amz-content-sha256;x-amz-date\n"
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )
    scope = Scope("20130524", "us-east-1", "s3")
    text = string_to_sign("20130524T000000Z", scope, request)
    assert text.splitlines()[3] == "7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972"
    key = signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", *scope)
    assert sign(key, text) == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
