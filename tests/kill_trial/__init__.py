"""A trial of the whole service from outside: it is killed at random moments while callers load it with work.

`cells` has what is run and what has to come of it, `callers` the load, `kills` what is done to the service, `trial` all
of it together with the verdict.
"""
