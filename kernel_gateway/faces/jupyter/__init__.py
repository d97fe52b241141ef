"""The Jupyter face: JupyterLab, VS Code and other Jupyter clients attach to a session's live kernel.

A kernel's id, its Jupyter session's id and our session's id are one. Nothing here is jupyter_server's.
"""
