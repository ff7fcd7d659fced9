//! The content of the file, and files without write permission.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::*;

/// C82: a session's row is parsed only by its readers; its checksum is checked for others too.
#[tokio::test]
async fn a_session_that_is_not_understood_does_not_affect_others() {
    let (_folder, path) = temp_store_path();
    drop(begin(&Sqlite::open(&path).unwrap(), "s", &numbered(0..1)).await);
    let info = r#"{"id":"s","of a newer version":true}"#;
    let crc = |number: i64| {
        let mut crc = crc32fast::Hasher::new();
        for field in [&b"s"[..], &number.to_le_bytes(), info.as_bytes(), b""] {
            crc.update(&(field.len() as u64).to_le_bytes());
            crc.update(field);
        }
        crc.finalize()
    };
    let raw = raw_connection(&path);
    let number = raw.query_row("SELECT number FROM session", (), |row| row.get(0)).unwrap();
    raw.execute("UPDATE session SET info = ?1, owner = '', crc = ?2", (info, crc(number))).unwrap();
    let store = Sqlite::open(&path).unwrap();
    drop(begin(&store, "new", &numbered(0..2)).await);
    assert_eq!(store.read("new", 0).await.unwrap(), numbered(0..2));
    assert_eq!(store.read("missing", 0).await, Err(MemoryError::NoSession("missing".into())));
    for error in [store.open("s").await.err().unwrap(), store.session("s").await.unwrap_err()] {
        assert!(error.to_string().contains("update loopwright"), "{error}");
    }
    raw.execute("UPDATE session SET crc = 0 WHERE name = 's'", ()).unwrap();
    let damaged = store.open("another").await.err().unwrap();
    assert!(
        damaged.to_string().contains("`s`, or its name, in"),
        "it could be this one: {damaged}"
    );
}

#[tokio::test]
async fn deleted_data_is_overwritten_in_every_file() {
    let (folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let secret = "the number of the account is 4711-0815";
    drop(begin(&store, "kept", &numbered(0..50)).await);
    drop(begin(&store, "s", &[remembered(secret), remembered(&secret.repeat(1000))]).await);
    let is_stored = || {
        let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let bytes: Vec<u8> =
            files.filter(|file| file.is_file()).flat_map(|file| fs::read(file).unwrap()).collect();
        bytes.windows(secret.len()).any(|bytes| bytes == secret.as_bytes())
    };
    assert!(is_stored());
    store.delete("s").await.unwrap();
    assert!(!is_stored(), "while the store is open");
    drop(store);
    assert!(!is_stored());
}

#[tokio::test]
async fn a_file_that_is_not_writable_is_refused_and_left_untouched() {
    let (_folder, path) = temp_store_path();
    fs::write(path.with_file_name("sessions.db-owners"), "a file where there should be a folder")
        .unwrap();
    let refused = Sqlite::open(&path).err().unwrap().to_string();
    assert!(
        refused
            .contains("sessions.db cannot be opened, because its folder of owners cannot be used"),
        "{refused}"
    );
    assert!(!path.exists(), "no file was created");

    let folder = tempfile::tempdir().unwrap();
    let run = |command: &str, args: &[&str]| {
        let status = Command::new(command).args(args).arg(folder.path()).status();
        status.is_ok_and(|status| status.success())
    };
    // Permissions do not apply to root, a read-only mount does.
    let is_root = run("mount", &["-t", "tmpfs", "none"]);
    let path = folder.path().join("sessions.db");
    drop(begin(&Sqlite::open(&path).unwrap(), "s", &numbered(0..3)).await);
    let before = fs::read(&path).unwrap();
    let permit = |folder_mode, mode| {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(folder_mode)).unwrap();
    };
    if is_root {
        assert!(run("mount", &["-o", "remount,ro"]));
    } else {
        permit(0o500, 0o400);
    }
    let refused = Sqlite::open(&path).err().map(|why| why.to_string());
    let after = fs::read(&path).unwrap();
    if is_root {
        assert!(run("umount", &[]));
    } else {
        permit(0o700, 0o600);
    }
    let refused = refused.unwrap();
    assert!(refused.contains("sessions.db") && refused.contains("write"), "{refused}");
    assert!(after == before);
}
