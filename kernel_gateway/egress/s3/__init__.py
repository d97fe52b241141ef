"""The execution role of a session: its sandbox's S3 endpoint, which checks, signs and forwards. Holds the real keys.

`scope`, `keys`, `operations`, `headers`, `policy`, `documents` and `answers` are pure; `signing` knows credentials;
`client_side` and `proxy` are the shell around them.
"""
