"""A session's notebook as people read it: an HTML page and a plain script. Pure: bytes to bytes.

What a sandbox put out is hostile. Nothing of it becomes markup before `sanitising` has been over it, and the page as a
whole goes through it once more; the page loads nothing, and says so to the browser (`POLICY`). Making a view takes long
for a large notebook and runs other people's parsers over hostile text, so the service makes it in a process of its own:
`python -m kernel_gateway.views`.
"""
