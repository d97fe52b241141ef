"""The `sandcell` command: each module holds the verbs of one noun. Other distributions add theirs; `verbs` says how."""
