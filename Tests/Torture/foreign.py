"""A database that others use, too: their tables bear the names of Posthouse's, and the daemons' role owns one schema
alone (deploy/least-privileges.sql)."""

import pathlib

from cluster import ROLE, tool
from database import DATABASE, Server
from oracle import Findings
from processes import run

PRIVILEGES = pathlib.Path(__file__).parents[2] / "deploy/least-privileges.sql"
# Of each of these the others have one: what forgets its schema finds a table, and no right error.
TABLES = ("attempts", "daemons", "dead_letters", "deliveries", "entitlements", "events", "identities", "integrations",
          "messages", "purchases", "quarantine", "schema_migrations", "transfers")


def share(server: Server, schema: str) -> None:
    """As least-privileges.sql says, in a database that is another's."""
    with server.session(DATABASE) as session:
        session.ask(f"ALTER DATABASE {DATABASE} OWNER TO postgres")
        for table in TABLES:
            session.ask(f"CREATE TABLE public.{table} (theirs text); INSERT INTO public.{table} VALUES ('theirs')")
        session.ask(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {ROLE}")
        # The daemons' own setting decides; the oracle, which asks as another role, must look there.
        session.ask(f"ALTER ROLE {ROLE} SET search_path = public")
        session.ask(f"ALTER ROLE postgres IN DATABASE {DATABASE} SET search_path = {schema}")
    run([tool("psql"), "-qX", "-1", "-v", "ON_ERROR_STOP=1", "-v", f"role={ROLE}", "-v", f"owned_schema={schema}", "-f",
         str(PRIVILEGES), server.url(DATABASE, role="postgres")], patience_s=180)


async def examine(server: Server, findings: Findings) -> None:
    for table in TABLES:
        if (rows := await server.ask(f"SELECT string_agg(theirs, ',') FROM public.{table}")) != "theirs":
            findings.add("foreign tables that were changed", f"{table}: {rows}")
    strays = await server.ask("SELECT string_agg(oid::regclass::text, ', ') FROM pg_class "
                              "WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'S') "
                              f"AND relname <> ALL ('{{{','.join(TABLES)}}}')")
    if strays:
        findings.add("tables beside the configured schema", strays)
