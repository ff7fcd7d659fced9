//! Connections to the store's file: creation, opening, and check of its format.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use loopwright_core::error::Failure;
use loopwright_core::log::MemoryError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::{StoreError, damaged, from_sqlite, not_flushed};
use super::migration::{self, FORMAT, number};
use super::owners::Owners;
use super::wal;
use crate::lock_holder::LOCK_TIMEOUT;
use crate::private;

/// The application id in the file's header: `lpwr`.
const APPLICATION_ID: i64 = 0x6c70_7772;
/// Query of the definitions of all tables, in the form of [`migration::schema`].
const READ_SCHEMA: &str = "SELECT group_concat(sql, ';\n' ORDER BY type = 'index', rowid) \
    FROM sqlite_schema \
    WHERE name NOT LIKE 'sqlite_%'";

/// Returns the file's canonical path, so that all processes use the same folder of owners. Creates
/// the folder of the file if it is missing.
pub(crate) fn locate(path: &Path) -> Result<PathBuf, MemoryError> {
    let failed = |error: io::Error| {
        let why = format!("{} cannot be created: {error}", path.display());
        MemoryError::Failed(Failure::new(why).with_source(error))
    };
    if let Ok(path) = fs::canonicalize(path) {
        return Ok(path);
    }
    let Some(name) = path.file_name() else {
        return Err(MemoryError::Failed(
            format!("{} is not the path of a file: give one for the store", path.display()).into(),
        ));
    };
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    private::make_folder(folder).map_err(failed)?;
    Ok(fs::canonicalize(folder).map_err(failed)?.join(name))
}

/// Opens the file, creating it if it is missing. Returns the owner's lock and a connection for
/// writing.
pub(super) fn open(path: &Path) -> Result<(Owners, Connection), MemoryError> {
    let existing = if path.exists() { Some(connect(path)?) } else { None };
    if let Some(connection) = &existing {
        migration::migrate(connection, path)?;
    }
    let mut folder = path.as_os_str().to_owned();
    folder.push("-owners");
    let owners = Owners::new(folder.into()).map_err(|error| {
        let why = format!(
            "{} cannot be opened, because its folder of owners cannot be used: {error}",
            path.display()
        );
        MemoryError::Failed(Failure::new(why).with_source(error))
    })?;
    let connection = match existing {
        Some(connection) => connection,
        None => {
            create(path, &owners)?;
            connect(path)?
        }
    };
    flush(&connection, path)?;
    Ok((owners, connection))
}

/// Flushes data that another process may have left only in the page cache: its last writes, or data
/// it failed to flush. Afterwards, everything that is read is on disk.
fn flush(connection: &Connection, path: &Path) -> Result<(), MemoryError> {
    let folder = path.parent().map_or(Ok(()), private::sync_folder);
    folder.map_err(|error| not_flushed(path, &error.to_string()))?;
    wal::flush(path).map_err(|error| {
        let _ = wal::rewrite(connection, path); // else the next attempt would find nothing to flush
        not_flushed(path, &error.to_string())
    })
}

/// Creates the file under another name, and links it to its own name once it is complete and on
/// disk.
///
/// So no process opens an incomplete file, and an existing empty file was not created here.
fn create(path: &Path, owners: &Owners) -> Result<(), MemoryError> {
    let draft = owners.draft();
    let built = build(path, &draft).map_err(|error| error.into_memory_error(path));
    let _ = fs::remove_file(&draft); // else the next store to open removes it
    built
}

fn build(path: &Path, draft: &Path) -> Result<(), StoreError> {
    let io = |error: io::Error| {
        let why = format!("{}: {error}", draft.display());
        StoreError::from(MemoryError::Failed(Failure::new(why).with_source(error)))
    };
    let file = private::file().write(true).create_new(true).open(draft).map_err(io)?;
    let connection = Connection::open(draft)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let tx = connection.unchecked_transaction()?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    migration::create(&tx)?;
    tx.commit()?;
    // Closing would also move the pages from the write-ahead log, but not report a failure.
    if !wal::checkpoint(&connection, wal::Checkpoint::Truncate)? {
        return Err(io(io::Error::other("its write-ahead log cannot be emptied")));
    }
    connection.close().map_err(|(_, error)| error)?;
    file.sync_all().map_err(io)?;
    match fs::hard_link(draft, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(io(error)),
        _ => {} // if it exists, another process was faster
    }
    if let Some(folder) = path.parent() {
        private::sync_folder(folder).map_err(io)?;
    }
    Ok(())
}

/// Connects to an existing file. A file that is not a store is left untouched.
pub(super) fn connect(path: &Path) -> Result<Connection, MemoryError> {
    let failed = |error: rusqlite::Error| from_sqlite(error, path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(LOCK_TIMEOUT).map_err(failed)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    check(&connection, path)?;
    set_up(&connection).map_err(failed)?;
    Ok(connection)
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?; // it would not report a failure
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "fullfsync", true)?; // where fsync alone does not reach the disk
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "trusted_schema", false)
}

/// Checks that the file is a store of a known format.
fn check(connection: &Connection, path: &Path) -> Result<(), MemoryError> {
    let failed = |error: rusqlite::Error| from_sqlite(error, path);
    let number = |name: &str| number(connection, name).map_err(failed);
    if number("application_id")? != APPLICATION_ID {
        return Err(MemoryError::Failed(format!(
            "{} is no loopwright store, and was left untouched: give another path for the store",
            path.display()
        ).into()));
    }
    let format = number("user_version")?;
    if format > FORMAT {
        return Err(MemoryError::Newer {
            source_name: path.display().to_string(),
            found: format as u64,
            known: FORMAT as u64,
        });
    }
    let schema: Option<String> =
        connection.query_row(READ_SCHEMA, (), |row| row.get(0)).map_err(failed)?;
    if schema.is_none() || schema != migration::schema(format) {
        return Err(damaged(path, "the list of tables"));
    }
    Ok(())
}
