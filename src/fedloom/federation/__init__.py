"""The federation of real sites, on NVIDIA FLARE: who carries the letters between hub and sites.

    kits.py          a kit folder: whose it is, and what its owner has settled in it
    provisioning.py  PROJECT.toml -> a kit for the server, each site and each person
    processes.py     start and stop what runs behind a kit
    job.py           what is submitted: settings, never code
    policy.py        what a site's owner allows
    letters.py       letters as they go over the network
    roster.py        who takes part
    components.py    the two classes that FLARE makes at server and sites
    server/          rounds, checkpoints, quorum; who is there, and what is believed of it
    site/            answers letters: its policy, its data, its state, its privacy budget
    people/          submit a run, follow it, submit it again where FLARE gave up; a trial

Only components.py, people/session.py and provisioning.py touch FLARE. The package stands above
`experiments`, because what travels is a settings file.
"""
