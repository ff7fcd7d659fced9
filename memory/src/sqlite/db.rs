//! A connection to the file: what makes it ours, how it is begun, how it is set up.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use loopwright_core::log::MemoryError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::owners::Owners;
use super::rows;
use super::trouble::{Trouble, damaged, explain};
use crate::private;

/// How long a process waits for another one that writes.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// `lpwr`: whose file it is, in its header.
const APPLICATION: i64 = 0x6c70_7772;
/// The format that is written, and the newest that is read.
const FORMAT: i64 = 1;

/// The tables. `json` and `info` are an [`LogEntry`](loopwright_core::Item) and a
/// [`SessionInfo`](loopwright_core::log::SessionInfo), `crc` is over all else in its row. A branch
/// has the items from its first own one on; those before are its parent's.
const SCHEMA: &str = "\
CREATE TABLE session (name TEXT PRIMARY KEY, number INTEGER NOT NULL, info TEXT NOT NULL, owner TEXT NOT NULL, \
crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE item (session INTEGER NOT NULL, at INTEGER NOT NULL, json TEXT NOT NULL, crc INTEGER NOT NULL, \
PRIMARY KEY (session, at)) STRICT, WITHOUT ROWID;
CREATE TABLE tally (sessions INTEGER NOT NULL, next INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT";

/// The file's one true path, so that all who open it look for owners in the same folder.
pub(super) fn locate(path: &Path) -> Result<PathBuf, MemoryError> {
    let failed = |error| MemoryError::Failed(format!("{} cannot be made: {error}", path.display()));
    if let Ok(path) = fs::canonicalize(path) {
        return Ok(path);
    }
    let Some(name) = path.file_name() else {
        return Err(MemoryError::Failed(format!(
            "{} is no path of a file: give one for the store",
            path.display()
        )));
    };
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    private::make_folder(folder).map_err(failed)?;
    Ok(fs::canonicalize(folder).map_err(failed)?.join(name))
}

/// Opens the file, begins it if it is not there, and gives the owner's lock and a connection for
/// writing.
pub(super) fn open(path: &Path) -> Result<(Owners, Connection), MemoryError> {
    let there = if path.exists() { Some(connect(path)?) } else { None };
    let mut folder = path.as_os_str().to_owned();
    folder.push("-owners");
    let failed = |error| {
        MemoryError::Failed(format!(
            "{} cannot be opened beside its owners: {error}",
            path.display()
        ))
    };
    let owners = Owners::new(folder.into()).map_err(failed)?;
    if let Some(connection) = there {
        return Ok((owners, connection));
    }
    begin(path, &owners)?;
    Ok((owners, connect(path)?))
}

/// Makes the file under another name and gives it its own when it is whole: so nobody ever sees
/// half of it, and an empty file was not made here.
fn begin(path: &Path, owners: &Owners) -> Result<(), MemoryError> {
    let draft = owners.draft();
    let made = || -> Result<(), Trouble> {
        let io = |error: std::io::Error| {
            Trouble::from(MemoryError::Failed(format!("{}: {error}", draft.display())))
        };
        private::file().write(true).create_new(true).open(&draft).map_err(io)?;
        let connection = Connection::open(&draft)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let tx = connection.unchecked_transaction()?;
        tx.pragma_update(None, "application_id", APPLICATION)?;
        tx.pragma_update(None, "user_version", FORMAT)?;
        tx.execute_batch(SCHEMA)?;
        rows::tally(&tx, 0, 1)?;
        tx.commit()?;
        connection.close().map_err(|(_, error)| error)?;
        match fs::hard_link(&draft, path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(io(error)),
            _ => {} // where it is there, another process was faster
        }
        if let Some(folder) = path.parent() {
            private::sync_folder(folder).map_err(io)?;
        }
        Ok(())
    };
    let made = made().map_err(|trouble| trouble.told(path));
    let _ = fs::remove_file(&draft); // the next opening sweeps it
    made
}

/// A connection to a file that is there. One that is not ours is left as it is.
pub(super) fn connect(path: &Path) -> Result<Connection, MemoryError> {
    let told = |error: rusqlite::Error| explain(&error, path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(told)?;
    connection.busy_timeout(PATIENCE).map_err(told)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(told)?;
    check(&connection, path)?;
    let set_up = || -> rusqlite::Result<()> {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "fullfsync", true)?; // where fsync alone does not reach the disk
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "trusted_schema", false)
    };
    set_up().map_err(told)?;
    Ok(connection)
}

/// The file is a store of ours, of a format that is known.
fn check(connection: &Connection, path: &Path) -> Result<(), MemoryError> {
    let told = |error: rusqlite::Error| explain(&error, path);
    let number = |name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(told)
    };
    if number("application_id")? != APPLICATION {
        return Err(MemoryError::Failed(format!(
            "{} is no store of loopwright's, and was left as it is: give another path for the store",
            path.display()
        )));
    }
    let found = number("user_version")?;
    if found > FORMAT {
        let (place, found, known) = (path.display().to_string(), found as u64, FORMAT as u64);
        return Err(MemoryError::Newer { place, found, known });
    }
    let schema = "SELECT group_concat(sql, ';\n' ORDER BY rowid) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'";
    let schema: Option<String> =
        connection.query_row(schema, (), |row| row.get(0)).map_err(told)?;
    if found < FORMAT || schema.as_deref() != Some(SCHEMA) {
        return Err(damaged(path, "the list of tables"));
    }
    Ok(())
}
