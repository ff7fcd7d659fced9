//! What is in the file, and files that may not be written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::*;

/// C79: what is known of a session is parsed by whoever needs it; its checksum is looked at by all.
#[tokio::test]
async fn a_session_that_is_not_understood_does_not_hinder_others() {
    let (_folder, path) = place();
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
    let rough = beside(&path);
    let number = rough.query_row("SELECT number FROM session", (), |row| row.get(0)).unwrap();
    rough
        .execute("UPDATE session SET info = ?1, owner = '', crc = ?2", (info, crc(number)))
        .unwrap();
    let store = Sqlite::open(&path).unwrap();
    drop(begin(&store, "new", &numbered(0..2)).await);
    assert_eq!(store.read("new", 0).await.unwrap(), numbered(0..2));
    assert_eq!(store.read("missing", 0).await, Err(MemoryError::NoSession("missing".into())));
    for error in [store.open("s").await.err().unwrap(), store.session("s").await.unwrap_err()] {
        assert!(error.to_string().contains("update loopwright"), "{error}");
    }
    rough.execute("UPDATE session SET crc = 0 WHERE name = 's'", ()).unwrap();
    let damaged = store.open("another").await.err().unwrap();
    assert!(
        damaged.to_string().contains("`s`, or its name, in"),
        "it could be this one: {damaged}"
    );
}

#[tokio::test]
async fn what_was_deleted_is_in_no_file_any_more() {
    let (folder, path) = place();
    let store = Sqlite::open(&path).unwrap();
    let secret = "the number of the account is 4711-0815";
    drop(begin(&store, "kept", &numbered(0..50)).await);
    drop(begin(&store, "s", &[said(secret), said(&secret.repeat(1000))]).await);
    let there = || {
        let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let bytes: Vec<u8> =
            files.filter(|file| file.is_file()).flat_map(|file| fs::read(file).unwrap()).collect();
        bytes.windows(secret.len()).any(|bytes| bytes == secret.as_bytes())
    };
    assert!(there());
    store.delete("s").await.unwrap();
    assert!(!there(), "while the store is open");
    drop(store);
    assert!(!there());
}

#[tokio::test]
async fn what_may_not_be_written_is_told_and_left_as_it_is() {
    let (_folder, path) = place();
    fs::write(path.with_file_name("sessions.db-owners"), "a file where there should be a folder")
        .unwrap();
    let refused = Sqlite::open(&path).err().unwrap().to_string();
    assert!(refused.contains("sessions.db cannot be opened beside its owners"), "{refused}");
    assert!(!path.exists(), "nothing was made");

    let folder = tempfile::tempdir().unwrap();
    let run = |command: &str, args: &[&str]| {
        let status = Command::new(command).args(args).arg(folder.path()).status();
        status.is_ok_and(|status| status.success())
    };
    let is_root = run("mount", &["-t", "tmpfs", "none"]); // whom permissions do not stop, but a mount does
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
