"""SQL cells in notebooks: ``%load_ext sparkcep`` adds ``%%sql``, ``%sql`` and ``%%sparkcep``, a name that is always free."""
