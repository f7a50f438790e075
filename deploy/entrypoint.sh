#!/bin/sh
# Read the database's password from the file that PGPASSWORD_FILE names, such as a mounted secret, so that neither the
# compose file nor HOLDFAST_DB contains it. The command replaces this shell, so signals reach it directly.
set -eu
if [ -n "${PGPASSWORD_FILE:-}" ]; then
    PGPASSWORD="$(cat "$PGPASSWORD_FILE")"
    export PGPASSWORD
fi
exec "$@"
