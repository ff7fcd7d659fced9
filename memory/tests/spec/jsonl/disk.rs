//! Full disks, and files without write permission.

use std::io::{BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::processes::{line, other};
use super::*;

/// Appends until the file reaches the size limit of this process.
pub(super) async fn fill(store: &Jsonl) {
    let memory = store.open("s").await.unwrap();
    let mut at = memory.load(0).await.unwrap().len() as u64;
    let full = loop {
        match memory.append(at, [remembered(&"x".repeat(1000)), LogEntry::Reset].into()).await {
            Ok(()) => at += 2,
            Err(error) => break error,
        }
    };
    println!("ERROR {full}");
    assert_eq!(
        memory.append(at + 1, [LogEntry::Reset].into()).await,
        Err(MemoryError::Conflict { at: at + 1, end: at })
    );
    assert_eq!(memory.load(0).await.unwrap().len() as u64, at);
    append(&*memory, at, &[LogEntry::Reset]).await; // small enough to fit
    println!("ENTRIES {}", at + 1);
    match store.open("another").await {
        Ok(another) => append(&*another, 0, &[remembered("there is room for others")]).await,
        Err(error) => panic!("{error}"),
    }
}

/// C79: a full disk loses nothing: the append fails as a whole, and the log accepts appends once
/// the disk has room.
#[tokio::test]
async fn a_full_disk_loses_nothing() {
    let (directory, store, file) = store(&[&[remembered("one")]]).await;
    let mut shell = Command::new("sh");
    shell
        .args(["-c", r#"trap '' XFSZ; ulimit -f 100; exec "$0" "$@""#])
        .arg(std::env::current_exe().unwrap());
    let mut child = other(&mut shell, "fill", directory.path());
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let error = line(&mut output, "ERROR");
    assert!(
        error.contains(file.to_str().unwrap()) && error.contains("as it was before"),
        "{error}"
    );
    let entries: u64 = line(&mut output, "ENTRIES").parse().unwrap();
    output.read_to_string(&mut String::new()).unwrap();
    assert!(child.wait().unwrap().success());
    let memory = store.open("s").await.unwrap();
    assert_eq!((memory.repaired(), memory.load(0).await.unwrap().len() as u64), (None, entries));
    assert!(entries > 40);
    append(&*memory, entries, &[remembered(&"x".repeat(100_000))]).await;
    assert_eq!(store.read("another", 0).await.unwrap().len(), 1);
}

/// Reads the files in a process that may not write them.
pub(super) async fn read_without_write_permission(store: &Jsonl) {
    assert_eq!(store.read("s", 0).await.unwrap(), [remembered("one")]);
    assert_eq!(store.sessions().await.unwrap().len(), 1);
    let errors = [
        store.open("s").await.err(),
        store.open("new").await.err(),
        store.delete("s").await.err(),
        store.fork("s", None, "f").await.err(),
    ];
    for error in errors {
        println!("ERROR {}", error.unwrap());
    }
}

/// Files without write permission can be read, and errors name the file.
#[tokio::test]
async fn read_only_files_can_be_read() {
    let (directory, store, file) = store(&[&[remembered("one")]]).await;
    let whole = fs::read(&file).unwrap();
    let program = directory.path().join("program"); // where another user may run it
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o555)).unwrap();
    for (files, folder) in [(0o444, 0o555), (0o644, 0o755)] {
        for path in [&file, &directory.path().join(".lock")] {
            fs::set_permissions(path, fs::Permissions::from_mode(files)).unwrap();
        }
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(folder)).unwrap();
        let mut command = Command::new(&program);
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534); // a user that permissions apply to
        } else if files == 0o644 {
            continue; // the files are our own
        }
        let mut child = other(&mut command, "read only", directory.path());
        let mut output = BufReader::new(child.stdout.take().unwrap());
        for _ in 0..4 {
            let error = line(&mut output, "ERROR");
            assert!(
                error.contains(directory.path().to_str().unwrap()) && error.contains("denied"),
                "{error}"
            );
        }
        output.read_to_string(&mut String::new()).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(fs::read(&file).unwrap(), whole);
    }
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(directory.path().join(".lock"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(store.open("s").await.is_ok());
}

#[tokio::test]
async fn a_directory_instead_of_a_file_is_named_in_the_error() {
    let (directory, store, file) = store(&[&[remembered("one")]]).await;
    let path = directory.path().join("d.jsonl");
    fs::create_dir(&path).unwrap();
    for error in [
        store.open("d").await.err(),
        store.read("d", 0).await.err(),
        store.fork("s", None, "d").await.err(),
    ] {
        let error = error.unwrap().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
    assert_eq!(store.sessions().await.unwrap().len(), 1);
    let error = Jsonl::open(&file).err().unwrap().to_string();
    assert!(error.contains(file.to_str().unwrap()), "{error}");
}
