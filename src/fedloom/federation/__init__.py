"""The federation of real sites, on NVIDIA FLARE: who carries the letters between hub and sites.

    kits.py          a kit folder: whose it is, and what its owner has settled in it
    provisioning.py  PROJECT.toml -> a kit for the server, each site and each person
    processes.py     start and stop what runs behind a kit
    job.py           what is submitted: settings, never code
    desk.py          a site: its policy, its data, its state; answers letters
    own_*.py         what a site holds: rows, a raw table, or columns of people whom others hold too
    all_*.py         what the server knows of that
    sites.py         the sites as the server reaches them: who is there, who is left out
    letters.py       letters as they go over the network
    roster.py        who takes part
    conductor.py     the server: rounds, checkpoints, quorum
    components.py    the two classes that FLARE makes at server and sites
    session.py       a person's connection to the server
    watching.py      submit a run, follow it, submit it again where FLARE gave up

Only components.py, session.py and provisioning.py touch FLARE. The package stands above
`experiments`, because what travels is a settings file.
"""
