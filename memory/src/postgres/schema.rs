//! The tables, and the checks of a server.

use deadpool_postgres::Client;
use loopwright_core::log::MemoryError;

use super::error::StoreError;

/// The format that is written, and the newest that can be read.
const FORMAT: i32 = 2;
/// PostgreSQL 13.
const MIN_SERVER: i32 = 130_000;

/// The statements of each format, which follow the statements of the formats before.
///
/// In format 1, `json` and `info` are the serialised Rust types of the same names. Text that can
/// contain NUL is escaped. Columns with the collation `C` sort like Rust's strings. Identifiers
/// without a maximum length are found by their hash.
///
/// - `worker` has the open stores. `server` is the start time of the server that holds the store's
///   advisory lock. A free lock means that the store is dead, unless the server has restarted or
///   been replaced since.
/// - `session`: `worker` and `epoch` identify its owner, `root` is the root session of a
///   sub-agent's session, and `parent` is the session that it was forked from. `due` is the time at
///   which the log gives it work, 0 if it has work now, and null for sub-agents.
/// - `span` has the ranges of entries of which a session's log consists: its own, and shared ones.
/// - `mailbox`: `receipt` is null for inputs without one. Accepted inputs have no `json`, since it
///   is in the log.
/// - `snapshot` is the state of a session after so many entries, in the format of the core.
/// - `pending` and `decision` are copies from the logs. Decisions of deleted sessions remain.
///
/// Format 2 adds the `nonce` of schedules.
const SCHEMAS: [&str; FORMAT as usize] = [
    "\
CREATE TABLE worker (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    server timestamptz NOT NULL,
    expires timestamptz NOT NULL,
    address text NOT NULL DEFAULT '',
    takeovers bigint NOT NULL DEFAULT 0
);
CREATE TABLE session (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE \"C\" NOT NULL UNIQUE,
    worker integer,
    epoch bigint NOT NULL DEFAULT 0,
    entries bigint NOT NULL DEFAULT 0,
    info text NOT NULL,
    listed boolean NOT NULL DEFAULT false,
    changed bigint NOT NULL DEFAULT 0,
    principal text NOT NULL DEFAULT '',
    root text COLLATE \"C\",
    parent bigint REFERENCES session,
    due bigint
) WITH (fillfactor = 70);
CREATE INDEX session_worker ON session (worker) WHERE worker IS NOT NULL;
CREATE INDEX session_listed ON session (changed DESC, name) WHERE listed;
CREATE INDEX session_principal ON session (md5(principal), changed DESC, name) WHERE listed;
CREATE INDEX session_root ON session (root) WHERE root IS NOT NULL;
CREATE INDEX session_due ON session (due) WHERE due IS NOT NULL;
CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;
CREATE TABLE span (
    session bigint NOT NULL REFERENCES session ON DELETE CASCADE,
    source bigint NOT NULL REFERENCES session,
    first bigint NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (session, source)
);
CREATE INDEX span_source ON span (source);
CREATE TABLE entry (
    session bigint NOT NULL,
    position bigint NOT NULL,
    json text NOT NULL,
    input text,
    words text,
    PRIMARY KEY (session, position)
);
CREATE INDEX entry_input ON entry (session, md5(input)) WHERE input IS NOT NULL;
CREATE TABLE mailbox (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session bigint NOT NULL REFERENCES session ON DELETE CASCADE,
    input text NOT NULL,
    time bigint NOT NULL,
    json text NOT NULL,
    receipt text
);
CREATE UNIQUE INDEX mailbox_input ON mailbox (session, md5(input));
CREATE INDEX mailbox_unread ON mailbox (session, number) WHERE receipt IS NULL;
CREATE TABLE schedule (
    session bigint NOT NULL REFERENCES session ON DELETE CASCADE,
    id text COLLATE \"C\" NOT NULL,
    next bigint NOT NULL,
    json text NOT NULL
);
CREATE UNIQUE INDEX schedule_id ON schedule (session, md5(id));
CREATE INDEX schedule_next ON schedule (next);
CREATE TABLE snapshot (
    session bigint PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    entries bigint NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE pending (
    session bigint NOT NULL REFERENCES session ON DELETE CASCADE,
    since bigint NOT NULL,
    call text COLLATE \"C\" NOT NULL,
    tool text NOT NULL,
    json text NOT NULL
);
CREATE INDEX pending_session ON pending (session);
CREATE INDEX pending_since ON pending (since);
CREATE TABLE decision (
    time bigint NOT NULL,
    session text COLLATE \"C\" NOT NULL,
    position bigint NOT NULL,
    principal text NOT NULL,
    json text NOT NULL,
    PRIMARY KEY (time, session, position)
);
CREATE INDEX decision_session ON decision (session, time, position);
CREATE INDEX decision_principal ON decision (md5(principal), time, session, position);",
    "\
ALTER TABLE schedule ADD COLUMN nonce bigint NOT NULL DEFAULT 0",
];

/// Index for finding messages by parts of words. Its extension is available for every installation
/// of PostgreSQL. Without it, a search reads all messages.
const WORDS_INDEX: &str = "\
DO $$
DECLARE place text;
BEGIN
    -- Not in this schema, since others can need it, too.
    CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public;
    SELECT nspname INTO place FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'pg_trgm';
    EXECUTE format('CREATE INDEX entry_words ON entry USING gin (words %I.gin_trgm_ops) \
WHERE words IS NOT NULL', place);
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'searches have no index: %', SQLERRM;
END $$";

/// Creates the tables, or adds any that an older format lacks.
pub(super) async fn migrate(client: &mut Client, schema: &str) -> Result<(), StoreError> {
    check_server(client).await?;
    let tx = client.transaction().await?;
    // Stores opened at the same time create the tables one after the other.
    tx.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", &[&schema]).await?;
    let known = "SELECT count(*) FROM information_schema.tables \
        WHERE table_schema = $1 AND table_name = 'format'";
    let has_format = tx.query_one(known, &[&schema]).await?.get::<_, i64>(0) == 1;
    let found = match has_format {
        true => tx.query_one("SELECT version FROM format", &[]).await?.get::<_, i32>(0),
        false => 0,
    };
    if found > FORMAT {
        return Err(MemoryError::Newer {
            source_name: format!("the schema `{schema}` of the database"),
            found: found as u64,
            known: FORMAT as u64,
        }
        .into());
    }
    if !has_format {
        let exists = "SELECT count(*) FROM information_schema.schemata WHERE schema_name = $1";
        if tx.query_one(exists, &[&schema]).await?.get::<_, i64>(0) == 0 {
            tx.batch_execute(&format!("CREATE SCHEMA \"{schema}\"")).await?;
        }
        tx.batch_execute("CREATE TABLE format (version integer NOT NULL)").await?;
        tx.execute("INSERT INTO format VALUES (0)", &[]).await?;
    }
    for format in found..FORMAT {
        tx.batch_execute(SCHEMAS[format as usize]).await?;
        if format == 0 {
            tx.batch_execute(WORDS_INDEX).await?;
        }
    }
    if found < FORMAT {
        tx.execute("UPDATE format SET version = $1", &[&FORMAT]).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Refuses a server that cannot keep the store's promises, and warns if it may lose data.
async fn check_server(client: &Client) -> Result<(), StoreError> {
    let settings = "SELECT current_setting('server_version_num')::integer, \
        current_setting('server_version'), current_setting('server_encoding'), \
        pg_is_in_recovery(), current_setting('fsync'), current_setting('full_page_writes'), \
        current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), \
        (SELECT count(*) FROM pg_stat_replication)";
    let row = client.query_one(settings, &[]).await?;
    let text = |n: usize| row.get::<_, String>(n);
    let refuse = |why: String| Err(StoreError::Refused(MemoryError::Failed(why.into())));
    if row.get::<_, i32>(0) < MIN_SERVER {
        return refuse(format!(
            "the server is PostgreSQL {}: version 13 or newer is needed",
            text(1)
        ));
    }
    if text(2) != "UTF8" {
        let encoding = text(2);
        return refuse(format!(
            "the database has the encoding {encoding}: create one with `createdb --encoding UTF8 \
             --template template0 NAME`"
        ));
    }
    if row.get(3) {
        return refuse(
            "the server is a standby, which cannot be written to: connect to the primary, or name \
             all servers and add `target_session_attrs=read-write` to the address"
                .into(),
        );
    }
    for warning in risks(&text(4), &text(5), &text(6), &text(7), row.get::<_, i64>(8)) {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// Returns the settings that can lose acknowledged writes.
fn risks(
    fsync: &str,
    full_pages: &str,
    commit: &str,
    standby_names: &str,
    standbys: i64,
) -> Vec<&'static str> {
    let mut risks = Vec::new();
    if fsync == "off" || full_pages == "off" {
        risks.push(
            "PostgreSQL runs with `fsync` or `full_page_writes` off: a crash of its machine can \
             destroy the database",
        );
    }
    if commit == "off" {
        risks.push(
            "PostgreSQL has `synchronous_commit = off`: if it crashes, acknowledged inputs are \
             lost, and tools can run twice",
        );
    }
    if standbys > 0 && (standby_names.is_empty() || commit == "local") {
        risks.push(
            "PostgreSQL has standbys, and does not wait for them: after a fail-over, acknowledged \
             inputs can be lost, and tools can run twice; set `synchronous_standby_names` and \
             `synchronous_commit = on`",
        );
    }
    risks
}

#[cfg(test)]
mod tests {
    use super::risks;

    #[test]
    fn settings_that_can_lose_data_are_reported() {
        assert!(risks("on", "on", "on", "", 0).is_empty());
        assert!(risks("on", "on", "on", "ANY 1 (a, b)", 2).is_empty());
        assert!(risks("off", "on", "on", "", 0)[0].contains("fsync"));
        assert!(risks("on", "off", "on", "", 0)[0].contains("full_page_writes"));
        assert!(risks("on", "on", "off", "", 0)[0].contains("synchronous_commit"));
        assert!(risks("on", "on", "on", "", 1)[0].contains("synchronous_standby_names"));
        assert!(risks("on", "on", "local", "a", 1)[0].contains("standbys"));
    }
}
